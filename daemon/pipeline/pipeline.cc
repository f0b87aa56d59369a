// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/pipeline.h"

#include <algorithm>
#include <variant>

namespace memprofd {

Pipeline::Pipeline(const PipelineLimits& limits)
    : callstacks_(limits.callstacks),
      pairer_(limits.pairing, drops_),
      aggregator_({limits.max_live_samples, limits.classes, limits.sample_id_step, limits.memory},
                  drops_),
      lost_allocations_(limits.sample_id_step),
      native_heap_rate_(limits.native_heap_rate) {
  if (limits.observe) meter_.emplace(*limits.observe, drops_);
}

void Pipeline::begin_session(std::uint32_t generation, double rate) {
  sessions_.request(generation, rate);
}

void Pipeline::follow_since(std::uint32_t generation) {
  follows_ = true;
  aggregator_.forget_before(generation);
}

void Pipeline::end() { lost_allocations_.end(); }

void Pipeline::on_ring_record(std::span<const std::byte> data) {
  const auto event = decode_event(data, drops_);
  if (event) std::visit([this](const auto& view) { on_event(view); }, *event);
}

void Pipeline::on_event(const CaptureView& capture) {
  const bool of_c = (capture.flags & MEMPROF_CAPTURE_OF_C) != 0;
  if (!of_c) ++captures_seen_;
  if ((capture.flags & MEMPROF_CAPTURE_BROKEN) != 0) drops_.add(Drop::kPairBrokenStack);
  if (meter_ || of_c) {
    last_captured_ = capture.stack;
    last_callstack_ = intern(capture);
    return;
  }
  on_captures_dropped(capture.captures_dropped, capture.time_ns);
  // Interned even if it is not used, because its frames may be omitted next time.
  const CallstackId callstack = intern(capture);
  if (runtime_captures_) return;  // belongs to another session
  pairer_.on_capture(capture.tid, {.time_ns = capture.time_ns,
                                   .callstack = callstack,
                                   .direct = capture.alloc_idx >= 0,
                                   .interned = (capture.flags & MEMPROF_CAPTURE_INTERNED) != 0});
}

CallstackId Pipeline::intern(const CaptureView& capture) {
  if (capture.n_frames == 0) return CallstackId();  // no OCaml frame, so there is nothing to report
  if (capture.entries.empty()) {
    if (const auto known = callstacks_.find(capture.stack))
      return callstacks_.counted(known, drops_);
    drops_.add(callstacks_.overflowed() ? Drop::kFollowCallstacksFull : Drop::kPairUnknownStack);
    return CallstackId();
  }
  const auto id = callstacks_.intern({.hash = capture.stack,
                                      .entries = capture.entries,
                                      .alloc_idx = capture.alloc_idx,
                                      .n_frames = capture.n_frames,
                                      .truncated = (capture.flags & MEMPROF_CAPTURE_TRUNCATED) != 0,
                                      .broken = (capture.flags & MEMPROF_CAPTURE_BROKEN) != 0});
  return callstacks_.counted(id, drops_);
}

void Pipeline::on_event(const BatchView& batch) {
  ++batches_seen_;
  runtime_captures_ = false;
  const auto ahead = static_cast<std::int32_t>(batch.captures_dropped -
                                               static_cast<std::uint32_t>(captures_dropped_));
  if (ahead >= 0) on_captures_dropped(captures_dropped_ + ahead, batch.time_ns);
  on_records(batch);
  pairer_.on_batch_end(batch.buffer, batch.time_ns);
}

void Pipeline::on_event(const PackedView& batch) {
  ++batches_seen_;
  runtime_captures_ = true;
  on_packed(batch);
}

void Pipeline::on_packed_tail(const PackedView& tail) {
  if (tail.head.records == 0 || overtaken(tail.buffer, tail.first_seq, tail.head.records)) return;
  on_packed(tail);
}

// Records that were taken before are decoded again, because later ones refer to them.
void Pipeline::on_packed(const PackedView& batch) {
  const std::size_t records = batch.head.records;
  const std::size_t seen =
      seen_before(batch.buffer, batch.first_seq, records, MEMPROF_PACKED_RECORDS);
  if (!is_wanted(batch.generation, records, records - seen)) return;
  packed_.begin(batch.head, batch.words);
  std::size_t taken = 0;
  for (; taken < records; ++taken) {
    const auto record = packed_.next();
    if (!record) break;
    if (taken >= seen) on_packed_record(batch, *record);
  }
  if (taken < records && records > seen) {
    on_bad_records(batch.buffer, records - std::max(seen, taken));
  }
  if (observer_ != nullptr && records > seen) observer_->on_batch_end();
}

void Pipeline::on_packed_record(const PackedView& batch, memprof_record record) {
  record.time_ns = std::min<std::uint64_t>(record.time_ns, batch.time_ns);
  if (!valid_record(record)) return on_bad_records(batch.buffer, 1);
  if (is_late(record)) return;
  CallstackId callstack;
  if (is_alloc(record)) {
    ++captures_seen_;
    frames_seen_ += packed_.frames();
    callstack = intern(packed_);
  }
  const SampleEvent event = follow(batch.buffer, record, callstack);
  if (observer_ != nullptr) observer_->on_event(event, aggregator_.rate());
}

CallstackId Pipeline::intern(PackedDecoder& packed) {
  const StackHash hash = packed.stack_hash();
  if (hash == StackHash()) return CallstackId();  // no OCaml frame, so there is nothing to report
  if (const auto known = callstacks_.find(hash)) return callstacks_.counted(known, drops_);
  return callstacks_.counted(callstacks_.intern(packed.callstack()), drops_);
}

void Pipeline::observe_from(const ObservedView& counters) {
  if (meter_) meter_->begin(counters);
}

void Pipeline::on_event(const ObservedView& hit) {
  if (!meter_) {
    drops_.add(Drop::kDecodeBadKind);
    return;
  }
  const std::optional<double> words = meter_->advance(hit);
  if (!words) return;
  aggregator_.observe({.callstack = callstack_of(hit.stack),
                       .thread = hit.tid,
                       .domain = static_cast<std::uint16_t>(hit.domain),
                       .size_words = hit.size_words,
                       .weight_words = *words});
}

// Live blocks may have been freed in the lost events.
void Pipeline::on_event(const NativeBlockView& block) {
  if (native_heap_rate_ <= 0) {
    drops_.add(Drop::kDecodeBadKind);
    return;
  }
  if (native_ended_) return;
  if (block.generation < native_generation_) return;  // a late thread; no one follows the block now
  if (block.generation > native_generation_) {
    aggregator_.begin_native_session(native_heap_rate_);
    native_generation_ = block.generation;
  }
  if (block.lost != std::exchange(native_events_lost_, block.lost))
    aggregator_.forget_native_blocks();
  if (block.bytes == 0) {
    const auto freed = aggregator_.native_free(block.number, block.time_ns, block.tid);
    if (freed) report_native_event(*freed);
    return;
  }
  report_native_event(aggregator_.native_alloc({.number = block.number,
                                                .time_ns = block.time_ns,
                                                .address = block.address,
                                                .bytes = block.bytes,
                                                .n_samples = block.n_samples,
                                                .thread = block.tid},
                                               callstack_of(block.stack)));
}

void Pipeline::report_native_event(const SampleEvent& event) {
  ++native_events_;
  if (observer_ != nullptr) observer_->on_native_event(event);
}

void Pipeline::note_native_blocks(const ResidencyScan& scan) {
  for (const SampleEvent& end : aggregator_.note_native_blocks(scan)) report_native_event(end);
}

// The kernel's count is read now and then and is ahead of the events. The agent's count is the only
// report of blocks beyond those that it can follow.
std::uint64_t Pipeline::native_events_lost() const {
  return std::max(native_events_lost_, drops_.get(Drop::kKernelNativeEventLost)) +
         drops_.get(Drop::kAgentNativeBlocksFull);
}

// A hit, or a native block, follows its capture directly, unless another thread was in between.
CallstackId Pipeline::callstack_of(StackHash stack) {
  if (stack == StackHash()) return CallstackId();  // lost; the kernel side has counted it
  if (stack == last_captured_) return last_callstack_;
  if (const auto known = callstacks_.find(stack)) return callstacks_.counted(known, drops_);
  drops_.add(callstacks_.overflowed() ? Drop::kFollowCallstacksFull : Drop::kPairUnknownStack);
  return CallstackId();
}

void Pipeline::on_event(const LifecycleView& lifecycle) {
  switch (lifecycle.what) {
    case MEMPROF_LIFECYCLE_EXEC:
      exec_seen_ = true;
      break;
    case MEMPROF_LIFECYCLE_THREAD_EXIT:
      pairer_.on_thread_exit(lifecycle.tid, lifecycle.time_ns);
      break;
    case MEMPROF_LIFECYCLE_FRAMETABLE:
      ++frametables_registered_;
      break;
  }
}

void Pipeline::on_event(const ForkView& fork) { children_.push_back(fork.child); }

void Pipeline::expect(std::span<const BufferPosition> positions) {
  for (std::uint32_t buffer = 0; buffer < MEMPROF_BUFFERS; ++buffer) {
    const BufferPosition at = buffer < positions.size() ? positions[buffer] : BufferPosition();
    next_seq_[buffer] = at.records;
    lost_allocations_.begin_after(buffer, at.sampled);
  }
}

void Pipeline::on_reached(std::uint32_t buffer, const BufferPosition& position) {
  if (next_seq_[buffer] && position.records > *next_seq_[buffer]) {
    (void)seen_before(buffer, position.records, 0, 0);
  }
  lost_allocations_.on_reached(buffer, position.sampled);
}

void Pipeline::on_tail(const BatchView& tail) {
  if (tail.records.empty() || tail.records.size() > MEMPROF_BATCH_RECORDS) return;
  if (overtaken(tail.buffer, tail.first_seq, tail.records.size())) return;
  on_records(tail);
}

void Pipeline::on_tails(std::span<const AgentTail> tails, std::uint64_t time_ns) {
  for (const AgentTail& tail : tails) {
    on_reached(tail.buffer, {tail.first_seq, tail.sampled});
    if (const auto* plain = std::get_if<PlainTail>(&tail.batch)) {
      on_tail({.time_ns = time_ns,
               .generation = tail.generation,
               .first_seq = tail.first_seq,
               .buffer = tail.buffer,
               .records = plain->records});
    } else if (const auto* packed = std::get_if<PackedTail>(&tail.batch)) {
      on_packed_tail({.time_ns = time_ns,
                      .generation = tail.generation,
                      .first_seq = tail.first_seq,
                      .buffer = tail.buffer,
                      .head = packed->head,
                      .words = packed->words});
    }
  }
}

// True if batches have passed a tail since it was read.
bool Pipeline::overtaken(std::uint32_t buffer, std::uint64_t first_seq, std::size_t records) const {
  return next_seq_[buffer].value_or(0) >= first_seq + records;
}

void Pipeline::on_captures_dropped(std::uint64_t captures_dropped, std::uint64_t time_ns) {
  if (captures_dropped > captures_dropped_) {
    pairer_.on_captures_lost(captures_known_ns_, time_ns);
    captures_dropped_ = captures_dropped;
  }
  captures_known_ns_ = std::max(captures_known_ns_, time_ns);
}

void Pipeline::on_records(const BatchView& batch) {
  const std::size_t records = batch.records.size();
  const auto fresh = batch.records.subspan(
      seen_before(batch.buffer, batch.first_seq, records, MEMPROF_BATCH_RECORDS));
  if (!is_wanted(batch.generation, records, fresh.size())) return;
  for (const memprof_record& record : fresh) on_record(batch, record);
  if (observer_ != nullptr && !fresh.empty()) observer_->on_batch_end();
}

// True if records of this session are processed; counts new ones that are not.
bool Pipeline::is_wanted(std::uint32_t generation, std::size_t records, std::size_t fresh) {
  of_before_ = false;
  switch (sessions_.see(generation)) {
    case Sessions::Arrival::kUnknown:
      of_before_ = follows_ && sessions_.running() && aggregator_.follows(generation);
      if (!of_before_) drops_.add(Drop::kFollowStaleSession, fresh);
      return of_before_;
    case Sessions::Arrival::kBegins:
      begin(records == 0);
      return true;
    case Sessions::Arrival::kRunning:
      return true;
  }
  return false;
}

// A sample of an ended session comes before the next one is announced, or never.
bool Pipeline::is_late(const memprof_record& record) {
  if (!of_before_ || !is_alloc(record)) return false;
  drops_.add(Drop::kFollowStaleSession);
  return true;
}

// Returns how many of the records were taken before, and counts those that did not arrive.
// max_records: maximum of a batch of that kind. An example of one buffer:
// tail   #0..#99    expected 0     0 taken before, all 100 are new
// batch  #0..#511   expected 100   100 taken before: the tail came first, 412 are new
// batch  #1024..    expected 512   512 never came; none of these was taken before
std::size_t Pipeline::seen_before(std::uint32_t buffer, std::uint64_t first_seq,
                                  std::size_t records, std::size_t max_records) {
  const std::uint64_t expected = next_seq_[buffer].value_or(first_seq);
  next_seq_[buffer] = std::max(expected, first_seq + records);
  if (first_seq > expected) {
    drops_.add(Drop::kFollowLostRecords, first_seq - expected);
    after_loss(buffer, first_seq - expected);
    return 0;
  }
  const std::uint64_t behind = expected - first_seq;
  // A tail that was taken before explains one batch; numbers further back are invalid.
  if (behind > max_records) drops_.add(Drop::kDecodeBadRecord, records);
  return std::min<std::uint64_t>(behind, records);
}

void Pipeline::on_bad_records(std::uint32_t buffer, std::uint64_t n) {
  drops_.add(Drop::kDecodeBadRecord, n);
  after_loss(buffer, n);
}

void Pipeline::after_loss(std::uint32_t buffer, std::uint64_t records) {
  records_lost_ = true;
  lost_allocations_.on_lost(buffer, records);
  aggregator_.start_over();
}

// The announcement of a session comes before its captures. So waiting captures belong to the
// previous session and are dropped. If a batch of records comes first, the announcement was lost
// (say a batch of generation 4 after generation 3). Captures of this session then wait among older
// ones, and are sorted out as after any loss.
void Pipeline::begin(bool announced) {
  aggregator_.begin_session(sessions_.rate(), sessions_.generation(), follows_);
  lost_allocations_.begin_session(sessions_.rate());
  if (announced) pairer_.clear();
  records_lost_ = !announced;
}

// A record cannot be newer than its batch, whatever the target claims; otherwise all live blocks
// would seem that old.
void Pipeline::on_record(const BatchView& batch, memprof_record record) {
  record.time_ns = std::min<std::uint64_t>(record.time_ns, batch.time_ns);
  if (!valid_record(record)) return on_bad_records(batch.buffer, 1);
  if (is_late(record)) return;
  if (records_lost_) {
    pairer_.on_records_lost(record.time_ns);
    records_lost_ = false;
  }
  const CallstackId callstack =
      is_alloc(record) ? pairer_.on_alloc(batch.buffer, record) : CallstackId();
  const SampleEvent event = follow(batch.buffer, record, callstack);
  if (observer_ != nullptr) observer_->on_event(event, aggregator_.rate());
}

SampleEvent Pipeline::follow(std::uint32_t buffer, const memprof_record& record,
                             CallstackId callstack) {
  if (is_alloc(record)) {
    return aggregator_.alloc(record, callstack,
                             static_cast<std::uint16_t>(buffer),  // one per domain
                             lost_allocations_.on_alloc(buffer, record.sample_id));
  }
  if (MEMPROF_ORIGIN_KIND(record.origin) == MEMPROF_PROMOTE) return aggregator_.promote(record);
  return aggregator_.dealloc(record);
}

// A lost record of a large block had several samples, so each stands for as much as those seen do.
double Pipeline::missing_words(const TargetCounters& seen) const {
  const double rate = lost_allocations_.rate(), missing = lost_allocations_.missing();
  if (rate <= 0 || missing <= 0) return 0;
  const double events = static_cast<double>(std::max<std::uint64_t>(seen.alloc_events, 1));
  const double mean_words = std::max(1 / rate, seen.all_allocated().words / events);
  return count_limits(missing).upper * mean_words;
}

void Pipeline::fill(ProfileSnapshot& snapshot) const {
  fill_counts(aggregator_, callstacks_, snapshot);
  snapshot.drops = drops_;
  snapshot.drops.set(Drop::kFollowNotMadeUp, lost_allocations_.not_made_up());
  snapshot.missing_words = missing_words(snapshot.counters);
}

}  // namespace memprofd
