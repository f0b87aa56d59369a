// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/target_pipeline.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/discover/runtime_locks.h"
#include "daemon/util/clock.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes that are read in one turn from a target that is read slowly; small, so that its pauses are
// short.
constexpr std::uint64_t kSlowBytes = 256u << 10;

PipelineLimits pipeline_limits(AttachedTarget& attachment, const SharedBudget& memory) {
  const RuntimeAbi& abi = attachment.target().abi;
  PipelineLimits limits;
  limits.memory = limits.callstacks.memory = limits.classes.memory = memory;
  if (attachment.observes()) {
    limits.observe = abi.domains ? HeapMeter::Format::kIntegers : HeapMeter::Format::kDoubles;
  }
  limits.pairing.as_one_thread = abi.one_postponed_queue;
  limits.pairing.in_order = abi.domains;
  if (abi.domains) limits.sample_id_step = MEMPROF_BUFFERS;
  limits.native_heap_rate = attachment.native_heap().rate();
  return limits;
}

// The counters of each domain that runs now; of a domain that begins later, the hits have them.
std::vector<ObservedView> counters_now(const Target& target) {
  const MemoryReader& memory = target.memory->quick();
  std::vector<std::uint64_t> states;
  if (!target.abi.domains) {
    states.push_back(target.caml_state_address);
  } else if (const auto locks = RuntimeLocks::find(target); locks.ok()) {
    states = locks->domain_states(memory);
  }
  std::vector<ObservedView> views;
  for (const std::uint64_t state : states) {
    ObservedView view{.domain_state = state};
    if (memory.read_value(state + target.abi.stats, view.words).ok() &&
        memory.read_value(state + target.abi.young_ptr, view.young_ptr).ok() &&
        memory.read_value(state + target.abi.young_alloc_end, view.young_end).ok()) {
      views.push_back(view);
    }
  }
  return views;
}

// History never goes back, even if the clock does.
std::uint64_t begin_after(const ProfileSnapshot* before) {
  return before == nullptr ? realtime_ns() : std::max(realtime_ns(), before->now_ns() + 1);
}

ValueHistory values_before(const ProfileSnapshot* before) {
  const bool any = before != nullptr && before->values != nullptr;
  return any ? ValueHistory(*before->values) : ValueHistory();
}

// The snapshot without its counts, which are taken over separately.
ProfileSnapshotPtr without_counts(const ProfileSnapshot& snapshot) {
  auto rest = std::make_shared<ProfileSnapshot>();
  rest->info = snapshot.info;
  rest->drops = snapshot.drops;
  return rest;
}

}  // namespace

TargetPipeline::TargetPipeline(std::shared_ptr<AttachedTarget> attachment,
                               std::shared_ptr<Symbolizer> symbolizer, TargetInfo info,
                               ProfileSnapshotPtr before)
    : attachment_(std::move(attachment)),
      ring_(attachment_->kernel().take_ring()),
      pipeline_(pipeline_limits(*attachment_, memory_)),
      tap_(pipeline_, std::make_shared<EventLog>()),
      symbolizer_(std::move(symbolizer)),
      began_ns_(begin_after(before.get())),
      began_monotonic_ns_(monotonic_ns()),
      attached_ns_(before == nullptr ? began_ns_ : before->attached_ns),
      history_(before == nullptr ? History(began_ns_) : History(before->history)),
      values_(values_before(before.get())),
      info_(std::move(info)) {
  readings_.emplace(attachment_->target(), pipeline_, before == nullptr ? GcStats() : before->gc);
  if (before != nullptr) resume_from(*before);
  if (attachment_->agent() != nullptr) set_agent(*attachment_->agent());
  if (!attachment_->observes()) return;
  for (const ObservedView& counters : counters_now(attachment_->target())) {
    pipeline_.observe_from(counters);
  }
}

TargetPipeline::TargetPipeline(ProfileSnapshotPtr ended)
    : tap_(pipeline_, std::make_shared<EventLog>()),
      symbolizer_(ended->symbolizer),
      began_ns_(ended->attached_ns),
      began_monotonic_ns_(monotonic_ns()),
      attached_ns_(ended->attached_ns),
      history_(ended->history),
      values_(values_before(ended.get())),
      info_(ended->info) {
  tap_.close();
  auto final = std::make_shared<ProfileSnapshot>(*ended);
  final->events = tap_.log();
  final_ = std::move(final);
}

// The time without a memprofd becomes a window of its own, in which older live memory is forgotten
// and no allocation is known.
void TargetPipeline::resume_from(const ProfileSnapshot& before) {
  before_ = without_counts(before);
  pipeline_.resume_from(before);
  history_.close_window(
      began_ns_, [this](const auto& use) { pipeline_.close_interval(use); }, history_point());
}

void TargetPipeline::set_agent(const AgentControl& agent) {
  readings_->set_agent(agent, attachment_->native_heap().control());
}

class TargetPipeline::Meter {
 public:
  explicit Meter(TargetPipeline& target_pipeline)
      : target_pipeline_(target_pipeline), inner_(std::exchange(target_pipeline.metered_, true)) {
    if (!inner_) began_ = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  }
  ~Meter() {
    if (inner_) return;
    target_pipeline_.metered_ = false;
    const std::uint64_t taken = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_;
    target_pipeline_.signals_.ingest_ns += taken;
    const double slow_to = target_pipeline_.slow_to_;
    if (slow_to == 0) return;
    const auto rest = static_cast<std::int64_t>(static_cast<double>(taken) / slow_to);
    target_pipeline_.rests_until_ = Clock::now() + std::chrono::nanoseconds(rest);
  }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

 private:
  TargetPipeline& target_pipeline_;
  const bool inner_;
  std::uint64_t began_ = 0;
};

bool TargetPipeline::rests() const { return slow_to_ > 0 && Clock::now() < rests_until_; }

int TargetPipeline::consume(std::uint64_t end) {
  tap_.update();
  if (finished() || rests()) return 0;
  if (slow_to_ > 0) end = std::min(end, ring_->read() + kSlowBytes);
  if (ring_->read() == ring_->written()) return take_in(end);
  const Meter meter(*this);
  return take_in(end);
}

int TargetPipeline::take_in(std::uint64_t end) {
  const auto now = Clock::now();
  // This order ensures that the data before the end belongs to known sessions only.
  end = std::min(end, ring_->written());
  take_requested_sessions();
  const int records = ring_->consume(
      [this](std::span<const std::byte> record) { pipeline_.on_ring_record(record); }, end);
  tap_.flush();
  if (records > 0) {
    catch_up_pace_.note_data(now);
    note_children();
    signals_.exec_seen = pipeline_.exec_seen();
    signals_.frametables_registered = pipeline_.frametables_registered();
    signals_.batches_seen = pipeline_.batches_seen();
    publish_counts();
    signals_.records += static_cast<std::uint64_t>(records);  // after all other counts
  }
  if (slow_to_ > 0) end = ring_->written();
  if (ring_->read() >= end) signals_.consumed_until = now;  // after the counts
  return records;
}

void TargetPipeline::request_session(std::uint32_t generation, double rate) {
  requested_sessions_.add(generation, rate, attachment_);
}

void TargetPipeline::take_requested_sessions() {
  const std::vector<SessionRequests::Request> requested = requested_sessions_.take();
  // Runs before the first session is over, because the next one would forget it.
  if (!requested.empty()) readings_->note_followed();
  for (const SessionRequests::Request& session : requested) {
    if (session.positions) pipeline_.expect(*session.positions);
    pipeline_.begin_session(session.generation, session.rate);
  }
}

void TargetPipeline::publish_counts() {
  signals_.captures_seen = pipeline_.captures_seen();
  signals_.frames_seen = pipeline_.frames_seen();
  signals_.alloc_events = pipeline_.alloc_events();
  signals_.records_lost = pipeline_.drops().get(Drop::kFollowLostRecords);
}

SampleSites TargetPipeline::sites_of(std::span<const SampleId> numbers) {
  catch_up();
  SampleSites sites = find_sample_sites(pipeline_, numbers);
  sites.majors = readings_->majors();
  sites.sampled_since_ns = began_monotonic_ns_;
  return sites;
}

bool TargetPipeline::catch_up_due(Clock::time_point now) {
  if (finished() || readings_->agent() == nullptr ||
      !catch_up_pace_.due(now, tap_.log()->wanted())) {
    return false;
  }
  if (has_run_since(pid(), caught_up_cpu_ns_)) return true;
  catch_up_pace_.note_idle(now);
  return false;
}

void TargetPipeline::catch_up_if_run() {
  if (finished()) return;
  const std::uint64_t now_ns = monotonic_ns();
  if (has_run_since(pid(), caught_up_cpu_ns_)) {
    catch_up();
  } else {
    pipeline_.advance_clock_to(now_ns);  // blocks grow older while their program is stopped
  }
}

void TargetPipeline::catch_up() {
  if (finished() || slow_to_ > 0) return;
  const Meter meter(*this);
  const auto began = Clock::now();
  catch_up_pace_.fetched(began, true);  // corrected below if the read proves that there was none
  const std::uint64_t events = pipeline_.events();
  const std::uint64_t cpu_ns = process_cpu_ns(pid());
  caught_up_cpu_ns_ = 0;  // until everything has arrived
  const std::uint64_t asked_at_ns = monotonic_ns();
  std::vector<AgentTail> tails;
  bool is_read = false;
  if (const AgentControl* agent = readings_->agent()) {
    auto read = agent->tails();
    is_read = read.ok();
    if (is_read) tails = *std::move(read);
  }
  const std::uint64_t read_at_ns = monotonic_ns();
  const std::uint64_t captures_dropped = attachment_->kernel().captures_lost();
  const std::uint64_t end = ring_->written();
  while (take_in(end) > 0) {
  }
  // An unfinished record holds back later ones, which is not a loss.
  if (!is_read || ring_->read() < end) return;
  caught_up_cpu_ns_ = cpu_ns;
  if (!tails.empty()) pipeline_.on_captures_dropped(captures_dropped, read_at_ns);
  pipeline_.on_tails(tails, read_at_ns);
  catch_up_pace_.fetched(began, pipeline_.events() != events);
  pipeline_.advance_clock_to(asked_at_ns);
  tap_.flush();
  publish_counts();
}

void TargetPipeline::read_counters(ProfileSnapshot& snapshot) {
  pipeline_.drops().set(Drop::kDiscoverMemoryFull, attachment_->target().budget->refused());
  pipeline_.drops().set(Drop::kSymbolizeMemoryFull, symbolizer_->frames_without_room());
  const KernelCounters counters = attachment_->kernel().counters();
  for (int i = 0; i < MEMPROF_KERNEL_DROPS; ++i) {
    pipeline_.drops().set(static_cast<Drop>(i), counters.drops[i]);
  }
  if (const MallocProbes* probes = attachment_->kernel().malloc_probes()) {
    pipeline_.drops().set(Drop::kAgentNativeBlocksFull, probes->blocks_left_out());
  }
  snapshot.ring_bytes_used = ring_->used_bytes();
  snapshot.ring_bytes_total = ring_->total_bytes();
}

// Blocks that were freed before the reading began have been reported by now.
void TargetPipeline::note_native_blocks(const ResidencyScan& scan) {
  if (finished()) return;
  catch_up();
  pipeline_.note_native_blocks(scan);
  tap_.flush();
}

void TargetPipeline::end_native_heap() {
  if (finished()) return;
  catch_up();
  pipeline_.end_native_heap();
}

std::uint64_t TargetPipeline::history_now() const {
  return began_ns_ + (monotonic_ns() - began_monotonic_ns_);
}

HistoryPoint TargetPipeline::history_point() const {
  const std::uint64_t lost_before = before_ == nullptr ? 0 : before_->drops.lost();
  const GcStats& gc = readings_->gc();
  return {.live = pipeline_.aggregator().totals().live,
          .heap_words = gc.heap_words,
          .minor_collections = gc.minor_collections,
          .major_collections = gc.major_collections,
          .compactions = gc.compactions,
          .dropped_events = lost_before + pipeline_.drops().lost(),
          .session = pipeline_.aggregator().sessions(),
          .memory = readings_->memory_parts()};
}

void TargetPipeline::keep_history() {
  if (finished() || !history_.due(history_now())) return;
  const Meter meter(*this);
  // Fetches records that belong to this window: the agent may hold allocations since its last
  // batch.
  if (readings_->agent() != nullptr) catch_up_if_run();
  readings_->update_for_history();
  close_window();
}

void TargetPipeline::mark_moment() {
  if (finished()) return;
  const Meter meter(*this);
  readings_->update_for_history();
  close_window();
}

void TargetPipeline::close_window() {
  const std::uint64_t now_ns = history_now();
  history_.close_window(
      now_ns, [this](const auto& use) { pipeline_.close_interval(use); }, history_point());
  const Aggregator& aggregator = pipeline_.aggregator();
  const TargetCounters& totals = aggregator.totals();
  history_.note_live(now_ns, totals.live, totals.gone_words(), aggregator.by_class());
}

// Nothing changes after the end: finish() closed the last window.
HistoryView TargetPipeline::history_view() const {
  if (finished()) return history_.view();
  return history_.view(
      history_now(), [this](const auto& use) { pipeline_.aggregator().peek(use); },
      history_point());
}

void TargetPipeline::note_values(ValueSample sample) {
  if (finished()) return;
  const std::uint64_t shift_ns = began_ns_ - began_monotonic_ns_;
  sample.time_ns += shift_ns;
  for (ValueLine& line : sample.lines) line.time_ns += shift_ns;
  values_.note(sample);
}

bool TargetPipeline::shed_history() {
  const bool values_first = values_.memory_bytes() > history_.memory_bytes();
  if (!(values_first && values_.evict_oldest()) && !history_.evict_oldest()) return false;
  if (finished()) {
    auto copy = std::make_shared<ProfileSnapshot>(*final_);
    copy->history = history_view();
    copy->values = values_.view();
    final_ = std::move(copy);
  }
  return true;
}

ProfileSnapshotPtr TargetPipeline::snapshot() {
  if (finished()) {
    // Only facts from the control thread may still change.
    auto copy = std::make_shared<ProfileSnapshot>(*final_);
    copy->info = shown_info();
    return copy;
  }
  auto snapshot = std::make_shared<ProfileSnapshot>();
  readings_->update();
  read_counters(*snapshot);
  snapshot->info = shown_info();
  snapshot->time_ns = realtime_ns();
  snapshot->attached_ns = attached_ns_;
  snapshot->gc = readings_->gc();
  snapshot->memory = readings_->memory_status();
  snapshot->symbolizer = symbolizer_;
  snapshot->events = tap_.log();
  pipeline_.fill(*snapshot);
  if (before_ != nullptr) snapshot->drops += before_->drops;
  snapshot->history = history_view();
  snapshot->values = values_.view();
  return snapshot;
}

void TargetPipeline::finish() {
  if (finished()) return;
  end_records();
  close_window();
  values_.end();
  final_ = snapshot();
  pipeline_.release_live();
  tap_.close();
  ring_.reset();
  readings_.reset();
  attachment_.reset();
}

// The last batches of a killed program may have found no room, and it reports no more; the kernel
// side has noted them.
void TargetPipeline::end_records() {
  for (const LostBatch& lost : attachment_->kernel().lost_batches()) {
    pipeline_.on_reached(lost.buffer, {lost.records, lost.sampled});
  }
  pipeline_.end();
  publish_counts();
}

void TargetPipeline::note_children() {
  const std::vector<int> children = pipeline_.take_children();
  if (children.empty()) return;
  const MutexLock lock(info_mutex_);
  children_.insert(children_.end(), children.begin(), children.end());
}

std::vector<int> TargetPipeline::take_children() {
  const MutexLock lock(info_mutex_);
  return std::exchange(children_, {});
}

TargetInfo TargetPipeline::info() const {
  const MutexLock lock(info_mutex_);
  return info_;
}

// Counts since the attach continue those of the previous memprofd.
TargetInfo TargetPipeline::shown_info() const {
  TargetInfo shown = info();
  if (pipeline_.drops().get(Drop::kAgentDomainInUse) > 0) {
    absl::StrAppend(&shown.message, shown.message.empty() ? "" : "; ", kDomainInUseText);
  }
  if (before_ == nullptr) return shown;
  shown.attach_seconds = before_->info.attach_seconds;
  shown.paused_seconds += before_->info.paused_seconds;
  shown.overhead.lowered += before_->info.overhead.lowered;
  shown.overhead.raised += before_->info.overhead.raised;
  return shown;
}

void TargetPipeline::update_info(const std::function<void(TargetInfo&)>& change) {
  const MutexLock lock(info_mutex_);
  change(info_);
}

}  // namespace memprofd
