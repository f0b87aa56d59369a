// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/aggregator.h"

#include <utility>

namespace memprofd {
namespace {

Heap heap_of(std::uint32_t kind) {
  return kind == MEMPROF_ALLOC_MAJOR || kind == MEMPROF_DEALLOC_MAJOR ? Heap::kMajor : Heap::kMinor;
}

// Numbers of native blocks, which differ from those of OCaml's blocks.
SampleId native_sample(std::uint64_t number) { return SampleId(number | std::uint64_t{1} << 63); }

std::uint64_t words_of(const TrackedNativeBlock& block) { return (block.bytes + 7) / 8; }

SampleEvent alloc_event(const TrackedNativeBlock& block, ClassId alloc_class) {
  const std::uint64_t words = words_of(block);
  return {.record = {.time_ns = block.time_ns,
                     .sample_id = native_sample(block.number).value(),
                     .size_words = words,
                     .n_samples = block.n_samples,
                     .origin = MEMPROF_ORIGIN(block.thread, Source::kMalloc, MEMPROF_ALLOC_MAJOR)},
          .alloc_class = alloc_class,
          .bytes_short = static_cast<std::uint8_t>(8 * words - block.bytes),
          .alloc_time_ns = block.time_ns};
}

// thread: 0 if no thread was seen freeing the block.
memprof_record free_record(std::uint64_t number, std::uint64_t time_ns, std::uint32_t thread) {
  return {.time_ns = time_ns,
          .sample_id = native_sample(number).value(),
          .origin = MEMPROF_ORIGIN(thread, Source::kMalloc, MEMPROF_DEALLOC_MAJOR)};
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
  sessions_[next].set_rate(rate);
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

void Aggregator::start_over() {
  if (forget_all()) ++forgettings_;
}

bool Aggregator::forget_all() {
  return forget([](const Session&) { return true; });
}

template <typename Fn>
bool Aggregator::forget(Fn is_gone) {
  std::size_t gone = 0, followed = 0;
  for (const Session& session : sessions_) {
    followed += session.live;
    gone += is_gone(session) ? session.live : 0;
  }
  if (gone == 0) return false;
  settle();
  drops_.add(Drop::kFollowSessionEnd, gone);
  if (gone == followed) note_forgotten();
  if (gone == live_.size()) {
    live_.for_each([&](const LiveSample& sample) { forget_block(sample); });
    live_.clear();
    untracked_.add_all_seen();
    return true;
  }
  live_.erase_if([&](const LiveSample& sample) {
    const bool forgets = !of_c(sample) && is_gone(session_of(sample));
    if (forgets) forget_block(sample);
    return forgets;
  });
  return true;
}

void Aggregator::note_forgotten() {
  const bool knows_more = totals_.live.words >= totals_.forgotten_live.words;
  if (!knows_more && now_ns_ - totals_.forgotten_ns < kForgottenNs) return;
  totals_.forgotten_live = totals_.live;
  totals_.forgotten_ns = now_ns_;
}

void Aggregator::forget_block(const LiveSample& sample) {
  const ClassId id = sample.alloc_class();
  const AllocClass& of = classes_.get(id);
  const std::uint64_t n = of.counted(sample.n_samples());
  Session& session = session_of(sample);
  const SampleWeight each = session.weight_of(of);
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
  const std::size_t classes = by_class().size();
  std::array<std::vector<AgeCounts>, kSessions + 1> ages;  // the last one is for the native heap
  live_.for_each([&](const LiveSample& sample) {
    std::vector<AgeCounts>& of_session = ages[sample.session()];
    of_session.resize(classes);
    const AllocClass& of = classes_.get(sample.alloc_class());
    of_session[sample.alloc_class().value()].add(Heap::kMinor, age_of(sample),
                                                 of.counted(sample.n_samples()),
                                                 session_of(sample).weight_of(of).words);
  });
  std::vector<LiveOfSession> result;
  for (std::uint32_t session = 0; session < ages.size(); ++session) {
    if (ages[session].empty()) continue;
    const double rate = session < kSessions ? sessions_[session].rate : native_session_.rate;
    LiveOfSession& live = result.emplace_back(LiveOfSession{rate, {}});
    for (std::uint32_t id = 0; id < ages[session].size(); ++id) {
      if (!ages[session][id].empty()) {
        live.ages.emplace_back(ClassId(id), std::move(ages[session][id]));
      }
    }
  }
  return result;
}

void Aggregator::resume(const TargetCounters& totals, std::span<const KeptClass> classes,
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
  advance_clock_to(record.time_ns);
  const SampleId sample(record.sample_id);
  untracked_.see(sample);
  const Heap heap = heap_of(MEMPROF_ORIGIN_KIND(record.origin));
  const auto source = MEMPROF_ORIGIN_SOURCE(record.origin);
  const ClassId id = class_of(record, callstack, domain, stands_for_log2);
  const AllocClass& of = classes_.get(id);
  Session& session = sessions_[running_];
  const SampleWeight each = session.weight_of(of);
  const std::uint64_t n = of.counted(record.n_samples);
  Tally& tally = session.tallies.cell(id);
  ++totals_.alloc_events;
  totals_.allocated[static_cast<int>(heap)][source].add(n, each);
  tally.allocated += n;
  const SampleEvent event{.record = record, .alloc_class = id, .alloc_time_ns = record.time_ns};
  if (!may_follow(of)) {
    tally.never_followed += n;
    untracked_.add(sample);
    return event;
  }
  const auto followed =
      follow(sample, LiveSample(record.time_ns, record.n_samples, id, heap, running_), n, tally);
  if (followed == LiveSet::Inserted::kYes) totals_.live.add(n, each);
  if (followed == LiveSet::Inserted::kFull) untracked_.add(sample);
  return event;
}

// n: the counted part of the block.
LiveSet::Inserted Aggregator::follow(SampleId id, const LiveSample& sample, std::uint64_t n,
                                     Tally& tally) {
  const auto inserted = live_.insert(id, sample);
  if (inserted == LiveSet::Inserted::kYes) {
    ++session_of(sample).live;
    return inserted;
  }
  tally.never_followed += n;
  drops_.add(inserted == LiveSet::Inserted::kFull ? Drop::kFollowLiveSetFull
                                                  : Drop::kDecodeBadRecord);
  return inserted;
}

void Aggregator::count_unknown(SampleId id) {
  if (!untracked_.has(id)) drops_.add(Drop::kFollowUnknownSample);
}

SampleEvent Aggregator::event_of(const memprof_record& record, const LiveSample& sample) {
  SampleEvent event{.record = record,
                    .alloc_class = sample.alloc_class(),
                    .alloc_time_ns = sample.alloc_time_ns()};
  event.record.n_samples = sample.n_samples();
  return event;
}

SampleEvent Aggregator::promote(const memprof_record& record) {
  ++totals_.promote_events;
  const auto sample = live_.promote(SampleId(record.sample_id));
  if (!sample) {
    count_unknown(SampleId(record.sample_id));
    return {.record = record};
  }
  const AllocClass& of = classes_.get(sample->alloc_class());
  Session& session = session_of(*sample);
  const std::uint64_t n = of.counted(sample->n_samples());
  totals_.promoted.add(n, session.weight_of(of));
  session.tallies.cell(sample->alloc_class()).promoted += n;
  return event_of(record, *sample);
}

SampleEvent Aggregator::dealloc(const memprof_record& record) {
  ++totals_.dealloc_events;
  advance_clock_to(record.time_ns);
  const auto sample = live_.take(SampleId(record.sample_id));
  if (!sample) {
    count_unknown(SampleId(record.sample_id));
    return {.record = record};
  }
  const Heap heap = heap_of(MEMPROF_ORIGIN_KIND(record.origin));
  const AllocClass& of = classes_.get(sample->alloc_class());
  const SampleWeight each = session_of(*sample).weight_of(of);
  const std::uint64_t n = die(*sample, heap, record.time_ns);
  totals_.deallocated[static_cast<int>(heap)].add(n, each);
  totals_.live.subtract(n, each);
  return event_of(record, *sample);
}

// Returns the counted part of the block.
std::uint64_t Aggregator::die(const LiveSample& sample, Heap heap, std::uint64_t time_ns) {
  const std::uint64_t born = sample.alloc_time_ns();
  const std::uint64_t lifetime = time_ns > born ? time_ns - born : 0;
  const std::uint64_t n = classes_.get(sample.alloc_class()).counted(sample.n_samples());
  Session& session = session_of(sample);
  session.tallies.cell(sample.alloc_class()).die(heap, lifetime, n);
  --session.live;
  return n;
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

// ------------------------------- counts: tallies become counters and intervals

void Aggregator::Session::set_rate(double per_word) {
  rate = per_word;
  of_word = weight_of_word(per_word);
}

const std::vector<Counters>& Aggregator::by_class() const {
  settle();
  return by_class_;
}

void Aggregator::settle() const {
  for (const Session& session : sessions_) settle(session);
  settle(native_session_);
}

void Aggregator::settle(const Session& session) const {
  for (const Tally& tally : session.tallies.cells()) {
    const AllocClass& of = classes_.get(tally.alloc_class);
    const SampleWeight each = session.weight_of(of);
    tally.add_to(counters_of(tally.alloc_class), each, of.block_words());
    tally.add_to(session.interval.cell(tally.alloc_class), each);
  }
  session.tallies.clear();
}

void Aggregator::close(Session& session) {
  settle(session);
  if (!session.interval.empty()) closed_.push_back({std::move(session.interval), session.rate});
  session.interval = {};
}

void Aggregator::close_interval(const std::function<void(const Interval&, double)>& use) {
  peek(use);
  closed_.clear();
  for (Session& session : sessions_) session.interval.clear();
  native_session_.interval.clear();
  observed_.clear();
}

void Aggregator::peek(const std::function<void(const Interval&, double)>& use) const {
  settle();
  for (const ClosedInterval& closed : closed_) use(closed.interval, closed.rate);
  for (std::uint32_t i = 1; i <= kSessions; ++i) {
    const Session& session = sessions_[(running_ + i) % kSessions];
    if (!session.interval.empty()) use(session.interval, session.rate);
  }
  if (!native_session_.interval.empty()) use(native_session_.interval, native_session_.rate);
  observed_.for_each_weight(use);
}

Counters& Aggregator::counters_of(ClassId alloc_class) const {
  if (alloc_class.value() >= by_class_.size()) by_class_.resize(alloc_class.value() + 1);
  return by_class_[alloc_class.value()];
}

// ----------------------------------------------------------------- native heap

void Aggregator::begin_native_session(double rate) {
  forget_native_blocks();
  close(native_session_);
  native_session_.set_rate(rate);
}

void Aggregator::forget_native_blocks() {
  if (residence_.clear()) {
    for (Counters& counters : by_class_) counters.resident = {};
  }
  if (native_session_.live == 0) return;
  settle();
  drops_.add(Drop::kFollowSessionEnd, native_session_.live);
  live_.erase_if([&](const LiveSample& sample) {
    if (of_c(sample)) forget_block(sample);
    return of_c(sample);
  });
}

// The domain is unknown, and no minor collection can free the block.
SampleEvent Aggregator::native_alloc(const TrackedNativeBlock& block, CallstackId callstack) {
  advance_clock_to(block.time_ns);
  const ClassId id = intern({.callstack = callstack,
                             .thread = block.thread,
                             .domain = AllocClass::kAnyDomain,
                             .size = SizeBucket::of(words_of(block)),
                             .heap = Heap::kMajor,
                             .source = Source::kMalloc});
  const SampleEvent event = alloc_event(block, id);
  if (id == ClassId()) return event;
  const std::uint64_t n = classes_.get(id).counted(block.n_samples);
  Tally& tally = native_session_.tallies.cell(id);
  tally.allocated += n;
  const LiveSample sample(block.time_ns, block.n_samples, id, Heap::kMajor, LiveSample::kCSession);
  if (follow(native_sample(block.number), sample, n, tally) == LiveSet::Inserted::kYes) {
    residence_.add({block.number, block.address, block.bytes});
  }
  return event;
}

std::optional<SampleEvent> Aggregator::native_free(std::uint64_t number, std::uint64_t time_ns,
                                                   std::uint32_t thread) {
  advance_clock_to(time_ns);
  const memprof_record freed = free_record(number, time_ns, thread);
  const auto sample = live_.take(native_sample(number));
  if (sample) return end_native_block(number, *sample, freed);
  if (residence_.was_missed(number)) return std::nullopt;
  drops_.add(Drop::kFollowUnknownSample);
  return SampleEvent{.record = freed};
}

SampleEvent Aggregator::end_native_block(std::uint64_t number, const LiveSample& sample,
                                         const memprof_record& freed) {
  const std::uint64_t n = die(sample, Heap::kMajor, freed.time_ns);
  const auto share = residence_.take(number);
  if (share)
    counters_of(sample.alloc_class()).resident.subtract(n, resident_weight(sample, *share));
  return event_of(freed, sample);
}

// Weight of a share of the block.
SampleWeight Aggregator::resident_weight(const LiveSample& sample, float share) const {
  const double part = share;
  const SampleWeight each = native_session_.weight_of(classes_.get(sample.alloc_class()));
  return {each.words * part, each.variance_words2 * part * part,
          each.skew_words3 * part * part * part};
}

std::vector<SampleEvent> Aggregator::note_native_blocks(const ResidencyScan& scan) {
  for (const BlockResidency& found : scan) {
    const auto sample = live_.find(native_sample(found.number));
    if (!sample || found.gone) continue;
    const std::uint64_t n = classes_.get(sample->alloc_class()).counted(sample->n_samples());
    Estimate& resident = counters_of(sample->alloc_class()).resident;
    const auto before = residence_.note(found.number, found.share);
    if (before) resident.subtract(n, resident_weight(*sample, *before));
    resident.add(n, resident_weight(*sample, found.share));
  }
  std::vector<SampleEvent> ends;
  for (const std::uint64_t number : residence_.missed(scan)) {
    const auto sample = live_.take(native_sample(number));
    if (!sample) continue;
    drops_.add(Drop::kFollowNativeFreeMissed);
    ends.push_back(end_native_block(number, *sample, free_record(number, now_ns_, 0)));
  }
  return ends;
}

}  // namespace memprofd
