// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/aggregator.h"

#include <utility>

namespace memprofd {
namespace {

Heap heap_of(std::uint32_t kind) {
  return kind == MEMPROF_ALLOC_MAJOR || kind == MEMPROF_DEALLOC_MAJOR ? Heap::kMajor : Heap::kMinor;
}

// Numbers of C's blocks among those of OCaml's.
SampleId c_sample(std::uint64_t number) { return SampleId(number | std::uint64_t{1} << 63); }

SampleEvent event_of(const memprof_record& record, const LiveSample& sample) {
  SampleEvent event{record, sample.alloc_class(), sample.alloc_time_ns()};
  event.record.n_samples = sample.n_samples();
  return event;
}

}  // namespace

std::vector<AgeCounts> ages_by_class(std::span<const LiveOfSession> live, std::size_t classes) {
  std::vector<AgeCounts> ages(classes);
  for (const LiveOfSession& session : live) {
    for (const auto& [id, of_class] : session.ages) ages[id.value()] += of_class;
  }
  return ages;
}

void Aggregator::begin_session(double rate, std::uint32_t generation, bool follow) {
  const std::uint32_t next = generation % kSessions;
  const auto is_gone = [&](const Session& session) {
    return !follow || &session == &sessions_[next] || session.generation + kSessions <= generation;
  };
  const bool forgot = forget(is_gone);
  if (forgot || !follow) ++forgettings_;
  for (Session& session : sessions_) {
    if (!is_gone(session)) continue;
    close(session);
    session.followed = false;
  }
  running_ = next;
  sessions_[next].generation = generation;
  sessions_[next].rate = rate;
  sessions_[next].followed = true;
}

bool Aggregator::follows(std::uint32_t generation) const {
  const Session& session = sessions_[generation % kSessions];
  return session.followed && session.generation == generation;
}

void Aggregator::forget_before(std::uint32_t generation) {
  const auto is_gone = [&](const Session& session) {
    return &session != &running() && session.generation < generation;
  };
  if (forget(is_gone)) ++forgettings_;
  for (Session& session : sessions_) {
    if (is_gone(session)) session.followed = false;
  }
}

void Aggregator::begin_anew() {
  if (forget_all()) ++forgettings_;
}

void Aggregator::close(Session& session) {
  if (!session.interval.empty()) closed_.push_back({std::move(session.interval), session.rate});
  session.interval = {};
}

bool Aggregator::forget_all() {
  return forget([](const Session&) { return true; });
}

template <typename Fn>
bool Aggregator::forget(Fn is_gone) {
  std::size_t gone = 0;
  for (const Session& session : sessions_) gone += is_gone(session) ? session.live : 0;
  if (gone == 0) return false;
  drops_.add(Drop::kFollowSessionEnd, gone);
  if (gone == live_.size()) {
    live_.for_each([&](const LiveSample& sample) { forget_block(sample); });
    live_.clear();
    let_go_.add_all_seen();
    return true;
  }
  live_.erase_if([&](const LiveSample& sample) {
    const bool forgets = !of_c(sample) && is_gone(session_of(sample));
    if (forgets) forget_block(sample);
    return forgets;
  });
  return true;
}

void Aggregator::forget_block(const LiveSample& sample) {
  const ClassId id = sample.alloc_class();
  const AllocClass& of = classes_.get(id);
  const std::uint64_t n = of.counted(sample.n_samples());
  Session& session = session_of(sample);
  const SampleWeight each = of.weight(session.rate);
  Counters& counters = counters_of(id);
  IntervalCell& cell = session.interval.cell(id);
  cell.forgotten += n;
  cell.ages.add(Heap::kMinor, age_of(sample), n, each.words);
  counters.forgotten.add(Heap::kMinor, age_of(sample), n, each.words);
  counters.remove_live(n, each, of.block_words());
  if (!of_c(sample)) totals_.live.subtract(n, each);
  --session.live;
}

std::uint64_t Aggregator::age_of(const LiveSample& sample) const {
  const std::uint64_t born = sample.alloc_time_ns();
  return now_ns_ > born ? now_ns_ - born : 0;
}

std::vector<LiveOfSession> Aggregator::live_by_session() const {
  std::array<std::vector<AgeCounts>, kSessions + 1> ages;  // the last is that of C's memory
  live_.for_each([&](const LiveSample& sample) {
    std::vector<AgeCounts>& of_session = ages[sample.session()];
    of_session.resize(by_class_.size());
    const AllocClass& of = classes_.get(sample.alloc_class());
    of_session[sample.alloc_class().value()].add(Heap::kMinor, age_of(sample),
                                                 of.counted(sample.n_samples()),
                                                 of.weight(rate_of(sample)).words);
  });
  std::vector<LiveOfSession> result;
  for (std::uint32_t session = 0; session < ages.size(); ++session) {
    if (ages[session].empty()) continue;
    const double rate = session < kSessions ? sessions_[session].rate : c_session_.rate;
    LiveOfSession& live = result.emplace_back(LiveOfSession{rate, {}});
    for (std::uint32_t id = 0; id < ages[session].size(); ++id) {
      if (!ages[session][id].empty()) {
        live.ages.emplace_back(ClassId(id), std::move(ages[session][id]));
      }
    }
  }
  return result;
}

void Aggregator::go_on(const TargetCounters& totals, std::span<const KeptClass> classes,
                       std::span<const LiveOfSession> live, std::uint64_t sessions) {
  totals_ = totals;
  totals_.live = {};
  forgettings_ = sessions + 1;
  for (const KeptClass& kept : classes) {
    classes_.keep(kept.id, kept.alloc_class);
    Counters& counters = counters_of(kept.id);
    counters = kept.counters;
    counters.live = {};
    counters.live_objects = 0;
    counters.ages = {};
  }
  for (const LiveOfSession& session : live) {
    std::vector<IntervalCell> cells;
    for (const auto& [id, ages] : session.ages) {
      std::uint64_t n = 0;
      for (const AgeCounts::Entry& age : ages.entries()) n += age.n;
      cells.push_back({.alloc_class = id, .forgotten = n, .ages = ages});
      counters_of(id).forgotten += ages;
      drops_.add(Drop::kFollowSessionEnd, n);
    }
    closed_.push_back({Interval(std::move(cells)), session.rate});
  }
}

ClassId Aggregator::class_of(const memprof_record& record, CallstackId callstack,
                             std::uint16_t domain, int stands_for_log2) {
  return intern({.callstack = callstack,
                 .thread = MEMPROF_ORIGIN_TID(record.origin),
                 .domain = domain,
                 .size = SizeBucket::of(record.size_words),
                 .heap = heap_of(MEMPROF_ORIGIN_KIND(record.origin)),
                 .source = static_cast<Source>(MEMPROF_ORIGIN_SOURCE(record.origin)),
                 .stands_for_log2 = static_cast<std::uint8_t>(stands_for_log2)});
}

ClassId Aggregator::intern(const AllocClass& alloc_class) {
  const auto [id, whole] = classes_.intern(alloc_class);
  if (id == ClassId()) {
    drops_.add(Drop::kFollowClassesFull);
  } else if (!whole) {
    drops_.add(Drop::kFollowClassesCut);
  }
  return id;
}

bool Aggregator::may_follow(const AllocClass& of) {
  return of.stands_for_log2 == 0 || dice_() >> (64 - of.stands_for_log2) == 0;
}

SampleEvent Aggregator::alloc(const memprof_record& record, CallstackId callstack,
                              std::uint16_t domain, int stands_for_log2) {
  told_until(record.time_ns);
  const SampleId sample(record.sample_id);
  let_go_.see(sample);
  const Heap heap = heap_of(MEMPROF_ORIGIN_KIND(record.origin));
  const auto source = MEMPROF_ORIGIN_SOURCE(record.origin);
  const ClassId id = class_of(record, callstack, domain, stands_for_log2);
  const AllocClass& of = classes_.get(id);
  Session& session = sessions_[running_];
  const SampleWeight each = of.weight(session.rate);
  const std::uint64_t n = of.counted(record.n_samples);
  Counters& counters = counters_of(id);
  IntervalCell& cell = session.interval.cell(id);
  ++totals_.alloc_events;
  totals_.allocated[static_cast<int>(heap)][source].add(n, each);
  counters.add_allocated(n, each, of.block_words());
  cell.allocated += n;
  if (!may_follow(of)) {
    cell.never_followed += n;
    let_go_.add(sample);
    return {record, id, record.time_ns};
  }
  const auto inserted =
      live_.insert(sample, LiveSample(record.time_ns, record.n_samples, id, heap, running_));
  if (inserted == LiveSet::Inserted::kYes) {
    ++session.live;
    totals_.live.add(n, each);
    counters.add_live(n, each, of.block_words());
  } else {
    cell.never_followed += n;
    if (inserted == LiveSet::Inserted::kFull) let_go_.add(sample);
    drops_.add(inserted == LiveSet::Inserted::kFull ? Drop::kFollowLiveSetFull
                                                    : Drop::kDecodeBadRecord);
  }
  return {record, id, record.time_ns};
}

void Aggregator::count_unknown(SampleId id) {
  if (!let_go_.has(id)) drops_.add(Drop::kFollowUnknownSample);
}

SampleEvent Aggregator::promote(const memprof_record& record) {
  ++totals_.promote_events;
  LiveSample* sample = live_.find(SampleId(record.sample_id));
  if (sample == nullptr || sample->heap() == Heap::kMajor) {
    count_unknown(SampleId(record.sample_id));
    return {record, ClassId(), 0};
  }
  sample->move_to_major();
  const ClassId id = sample->alloc_class();
  const SampleWeight each = classes_.get(id).weight(rate_of(*sample));
  const std::uint64_t n = classes_.get(id).counted(sample->n_samples());
  totals_.promoted.add(n, each);
  counters_of(id).promoted.add(n, each);
  session_of(*sample).interval.cell(id).promoted += n;
  return event_of(record, *sample);
}

SampleEvent Aggregator::dealloc(const memprof_record& record) {
  ++totals_.dealloc_events;
  told_until(record.time_ns);
  const auto sample = live_.take(SampleId(record.sample_id));
  if (!sample) {
    count_unknown(SampleId(record.sample_id));
    return {record, ClassId(), 0};
  }
  const Heap heap = heap_of(MEMPROF_ORIGIN_KIND(record.origin));
  const AllocClass& of = classes_.get(sample->alloc_class());
  const SampleWeight each = of.weight(rate_of(*sample));
  const std::uint64_t n = die(*sample, heap, record.time_ns);
  totals_.deallocated[static_cast<int>(heap)].add(n, each);
  totals_.live.subtract(n, each);
  return event_of(record, *sample);
}

// Answers with what was counted of it.
std::uint64_t Aggregator::die(const LiveSample& sample, Heap heap, std::uint64_t time_ns) {
  const std::uint64_t born = sample.alloc_time_ns();
  const std::uint64_t lifetime = time_ns > born ? time_ns - born : 0;
  const ClassId id = sample.alloc_class();
  const AllocClass& of = classes_.get(id);
  Session& session = session_of(sample);
  const SampleWeight each = of.weight(session.rate);
  const std::uint64_t n = of.counted(sample.n_samples());
  Counters& counters = counters_of(id);
  counters.deallocated[static_cast<int>(heap)].add(n, each);
  counters.remove_live(n, each, of.block_words());
  --session.live;
  counters.deaths.add(heap, lifetime, n, each.words);
  session.interval.cell(id).deaths.add(heap, lifetime, n, each.words);
  return n;
}

void Aggregator::begin_c_session(double rate) {
  forget_c_blocks();
  close(c_session_);
  c_session_.rate = rate;
}

void Aggregator::forget_c_blocks() {
  if (residence_.clear()) {
    for (Counters& counters : by_class_) counters.resident = {};
  }
  if (c_session_.live == 0) return;
  drops_.add(Drop::kFollowSessionEnd, c_session_.live);
  live_.erase_if([&](const LiveSample& sample) {
    if (of_c(sample)) forget_block(sample);
    return of_c(sample);
  });
}

// Nothing is known of the domain, and it is in no heap that could be collected early.
void Aggregator::c_alloc(const CBlock& block, CallstackId callstack) {
  told_until(block.time_ns);
  const ClassId id = intern({.callstack = callstack,
                             .thread = block.thread,
                             .domain = AllocClass::kAnyDomain,
                             .size = SizeBucket::of((block.bytes + 7) / 8),
                             .heap = Heap::kMajor,
                             .source = Source::kMalloc});
  if (id == ClassId()) return;
  const AllocClass& of = classes_.get(id);
  const SampleWeight each = of.weight(c_session_.rate);
  const std::uint64_t n = of.counted(block.n_samples);
  Counters& counters = counters_of(id);
  IntervalCell& cell = c_session_.interval.cell(id);
  counters.add_allocated(n, each, of.block_words());
  cell.allocated += n;
  const LiveSample sample(block.time_ns, block.n_samples, id, Heap::kMajor, LiveSample::kCSession);
  const auto inserted = live_.insert(c_sample(block.number), sample);
  if (inserted == LiveSet::Inserted::kYes) {
    ++c_session_.live;
    counters.add_live(n, each, of.block_words());
    residence_.add({block.number, block.address, block.bytes});
    return;
  }
  cell.never_followed += n;
  drops_.add(inserted == LiveSet::Inserted::kFull ? Drop::kFollowLiveSetFull
                                                  : Drop::kDecodeBadRecord);
}

void Aggregator::c_free(std::uint64_t number, std::uint64_t time_ns) {
  told_until(time_ns);
  const auto sample = live_.take(c_sample(number));
  if (sample) return end_c_block(number, *sample, time_ns);
  if (!residence_.was_missed(number)) drops_.add(Drop::kFollowUnknownSample);
}

void Aggregator::end_c_block(std::uint64_t number, const LiveSample& sample,
                             std::uint64_t time_ns) {
  const std::uint64_t n = die(sample, Heap::kMajor, time_ns);
  const auto share = residence_.take(number);
  if (share)
    counters_of(sample.alloc_class()).resident.subtract(n, resident_weight(sample, *share));
}

// That of a share of the block.
SampleWeight Aggregator::resident_weight(const LiveSample& sample, float share) const {
  const double part = share;
  const SampleWeight each = classes_.get(sample.alloc_class()).weight(c_session_.rate);
  return {each.words * part, each.variance_words2 * part * part,
          each.skew_words3 * part * part * part};
}

void Aggregator::note_c_blocks(const CBlockLook& look) {
  for (const CBlockFound& found : look) {
    const LiveSample* sample = live_.find(c_sample(found.number));
    if (sample == nullptr || found.gone) continue;
    const std::uint64_t n = classes_.get(sample->alloc_class()).counted(sample->n_samples());
    Estimate& resident = counters_of(sample->alloc_class()).resident;
    const auto before = residence_.note(found.number, found.share);
    if (before) resident.subtract(n, resident_weight(*sample, *before));
    resident.add(n, resident_weight(*sample, found.share));
  }
  for (const std::uint64_t number : residence_.missed(look)) {
    const auto sample = live_.take(c_sample(number));
    if (!sample) continue;
    drops_.add(Drop::kFollowCFreeMissed);
    end_c_block(number, *sample, now_ns_);
  }
}

void Aggregator::observe(const ObservedHit& hit) {
  const double dice = std::uniform_real_distribution<double>()(dice_);
  const auto step = WeightScale::round(hit.weight_words, dice);
  if (!step) return;
  const double rate = 1 / WeightScale::words(*step);
  ClassId id = intern({.callstack = hit.callstack,
                       .thread = hit.thread,
                       .domain = hit.domain,
                       .size = SizeBucket::coarse_of(hit.size_words),
                       .heap = Heap::kMinor,
                       .source = Source::kNormal});
  if (!observed_.fits(id, *step)) {
    drops_.add(Drop::kFollowClassesFull);
    id = ClassId();
  }
  ++totals_.alloc_events;
  const AllocClass& of = classes_.get(id);
  const SampleWeight each = of.weight(rate);
  totals_.allocated[static_cast<int>(Heap::kMinor)][static_cast<int>(Source::kNormal)].add(1, each);
  counters_of(id).add_allocated(1, each, of.block_words());
  observed_.add(id, *step);
}

void Aggregator::close_interval(const std::function<void(const Interval&, double)>& use) {
  peek(use);
  closed_.clear();
  for (Session& session : sessions_) session.interval.clear();
  c_session_.interval.clear();
  observed_.clear();
}

void Aggregator::peek(const std::function<void(const Interval&, double)>& use) const {
  for (const ClosedInterval& closed : closed_) use(closed.interval, closed.rate);
  for (std::uint32_t i = 1; i <= kSessions; ++i) {
    const Session& session = sessions_[(running_ + i) % kSessions];
    if (!session.interval.empty()) use(session.interval, session.rate);
  }
  if (!c_session_.interval.empty()) use(c_session_.interval, c_session_.rate);
  observed_.for_each_weight(use);
}

Counters& Aggregator::counters_of(ClassId alloc_class) {
  if (alloc_class.value() >= by_class_.size()) by_class_.resize(alloc_class.value() + 1);
  return by_class_[alloc_class.value()];
}

}  // namespace memprofd
