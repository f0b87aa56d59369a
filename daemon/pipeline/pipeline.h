// SPDX-License-Identifier: Apache-2.0
// The path of one target's events: decode, pair, aggregate. Owned by the ingest
// thread; nothing in it is shared. In steady state (callstacks known, live set
// not growing) no call allocates.
//
//   ring record --decode--> capture --> callstack table, pairer
//                           batch ----> records by number --> pairer --> aggregator
//                           packed ---> records by number, callstack table --> aggregator
//                           lifecycle > pairer
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "agent-lib/include/memprof_agent_abi.h"
#include "daemon/aggregate/aggregator.h"
#include "daemon/aggregate/callstack_table.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/history/snapshot.h"
#include "daemon/history/snapshot_counts.h"
#include "daemon/ingest/decoder.h"
#include "daemon/ingest/heap_meter.h"
#include "daemon/ingest/lost_allocations.h"
#include "daemon/ingest/packed_decoder.h"
#include "daemon/ingest/pairing.h"
#include "daemon/ingest/sessions.h"
#include "daemon/util/drops.h"
#include "daemon/util/ids.h"

namespace memprofd {

// Receives every accepted record in order.
class SampleObserver {
 public:
  virtual ~SampleObserver() = default;
  // rate: samples per word in the session.
  virtual void on_event(const SampleEvent& event, double rate) = 0;
  // Likewise for the native heap, whose rate is constant (Pipeline::native_heap_rate).
  virtual void on_native_event(const SampleEvent& event) = 0;
  // No more events for now.
  virtual void on_batch_end() = 0;
};

struct PipelineLimits {
  // Fills a table of 2^22 slots, 88 MB.
  std::size_t max_live_samples = AggregatorLimits().live_samples;
  CallstackTableLimits callstacks;
  AllocClassLimits classes;
  PairerLimits pairing;
  // Difference between consecutive numbers of a buffer's sampled blocks.
  std::uint64_t sample_id_step = 1;
  SharedBudget memory;          // charged for the live set; null: no limit
  double native_heap_rate = 0;  // samples per word of the native heap; 0: it is not profiled
  // Observe mode: captures come with hits instead of records, and with counters of this format.
  std::optional<HeapMeter::Format> observe;
};

// Position of a buffer.
struct BufferPosition {
  std::uint64_t records = 0;  // number handed over
  std::uint64_t sampled = 0;  // number of sampled blocks, including those of records still in the
                              // buffer
};

class Pipeline {
 public:
  explicit Pipeline(const PipelineLimits& limits = {});
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Continues from a snapshot of the same program. Call this first.
  void resume_from(const ProfileSnapshot& before) {
    memprofd::resume_from(before, aggregator_, callstacks_);
    alloc_events_before_ = before.counters.alloc_events;
  }
  // Announces a session before its first record can arrive. The previous session continues until
  // the first batch of the new one. rate: samples per word.
  void begin_session(std::uint32_t generation, double rate);
  // Observe mode: sets the counters of a domain before its first hit.
  void observe_from(const ObservedView& counters);
  // The agent continues to report blocks that were sampled in sessions of this generation and
  // later. Unless this is called, each new session forgets earlier blocks.
  void follow_since(std::uint32_t generation);
  // Adds words allocated between two sessions since the last call, as the agent reports them.
  void unsampled(std::uint64_t words) { aggregator_.unsampled(words); }
  // Processes one ring buffer record, aligned to 8 bytes.
  void on_ring_record(std::span<const std::byte> data);
  // Sets the positions of the buffers of an idle agent; call it before the first session. Without
  // it, records before a buffer's first batch do not count as lost.
  void expect(std::span<const BufferPosition> positions);
  // Position of a buffer, as reported before the ring was drained. Records handed over by then that
  // have not arrived are lost.
  void on_reached(std::uint32_t buffer, const BufferPosition& position);
  // Processes the unflushed records of a buffer, which were read from the process as described in
  // memprof_agent_abi.h. Order: read them, drain the ring, then call this, because the captures
  // that belong to them are in the ring, and so may be their batch. Known records are skipped by
  // number. A tail has at most MEMPROF_BATCH_RECORDS; larger ones are ignored. time_ns: time of the
  // read.
  void on_tail(const BatchView& tail);
  // Likewise for a packed batch.
  void on_packed_tail(const PackedView& tail);
  // Likewise for all buffers, of either format, with their positions.
  void on_tails(std::span<const AgentTail> tails, std::uint64_t time_ns);
  // Total of lost captures that the kernel side counted by time_ns (CLOCK_MONOTONIC). Captures and
  // batches report it too; call this before on_tail with a number read after the tail.
  void on_captures_dropped(std::uint64_t captures_dropped, std::uint64_t time_ns);
  // No more records follow. Lost allocations that are not made up for yet are counted as drops.
  // Live memory is kept.
  void end();
  // Frees the memory of followed blocks; call it after the last snapshot.
  void release_live() { aggregator_.release_live(); }

  // The number of a buffer's next record; 0 if unknown.
  std::uint64_t next_seq(std::uint32_t buffer = 0) const { return next_seq_[buffer].value_or(0); }
  // True if that session is running, that is, some of its data has arrived.
  bool announced(std::uint32_t generation) const { return sessions_.runs(generation); }
  // Null except in observe mode.
  const HeapMeter* heap_meter() const { return meter_ ? &*meter_ : nullptr; }
  // Number of callstacks in any capture mode.
  std::uint64_t captures_seen() const { return captures_seen_; }
  // Number of frames in callstacks that the runtime captured.
  std::uint64_t frames_seen() const { return frames_seen_; }
  // Number of batches received through the probe, including empty ones, excluding tails.
  std::uint64_t batches_seen() const { return batches_seen_; }
  // Number of events of the target so far, which is the number of the next one.
  std::uint64_t events() const {
    const TargetCounters& totals = aggregator_.totals();
    return totals.alloc_events + totals.promote_events + totals.dealloc_events + native_events_;
  }
  // Number of allocation events of this pipeline.
  std::uint64_t alloc_events() const {
    return aggregator_.totals().alloc_events - alloc_events_before_;
  }
  // True if the target called exec: the old program sends no more data.
  bool exec_seen() const { return exec_seen_; }
  // Number of registered frame tables (Dynlink). A change requires a reload.
  std::uint64_t frametables_registered() const { return frametables_registered_; }

  // The children that the program has forked since the last call; see bpf/events.h.
  std::vector<int> take_children() { return std::exchange(children_, {}); }

  // nullptr removes the observer, which must live until then.
  void set_observer(SampleObserver* observer) { observer_ = observer; }
  DropCounters& drops() { return drops_; }
  const DropCounters& drops() const { return drops_; }
  std::shared_ptr<const Callstack> callstack(CallstackId id) const {
    return {callstacks_.kept(), &callstacks_.get(id)};
  }
  const AllocClass& alloc_class(ClassId id) const { return aggregator_.classes().get(id); }
  const Aggregator& aggregator() const { return aggregator_; }
  void note_native_blocks(const ResidencyScan& scan);
  double native_heap_rate() const { return native_heap_rate_; }
  // Native samples and frees that never arrived.
  std::uint64_t native_events_lost() const;
  // Stops following native blocks, even if more events arrive.
  void end_native_heap() {
    native_ended_ = true;
    aggregator_.forget_native_blocks();
  }
  // Like the functions of Aggregator.
  void advance_clock_to(std::uint64_t time_ns) { aggregator_.advance_clock_to(time_ns); }
  void close_interval(const std::function<void(const Interval&, double)>& use) {
    aggregator_.close_interval(use);
  }
  // Sets counters, drops, rows (classes with samples, by id), live_samples_tracked and
  // stacks_interned.
  void fill(ProfileSnapshot& snapshot) const;

 private:
  // The most words that lost allocations stand for which are not in the counters.
  double missing_words(const TargetCounters& seen) const;
  void on_event(const CaptureView& capture);
  void on_event(const BatchView& batch);
  void on_event(const PackedView& batch);
  void on_event(const LifecycleView& lifecycle);
  void on_event(const ForkView& fork);
  void on_event(const ObservedView& hit);
  void on_event(const NativeBlockView& block);
  void report_native_event(const SampleEvent& event);
  CallstackId intern(const CaptureView& capture);
  CallstackId intern(PackedDecoder& packed);
  void on_packed(const PackedView& batch);
  void on_packed_record(const PackedView& batch, memprof_record record);
  bool is_wanted(std::uint32_t generation, std::size_t records, std::size_t fresh);
  bool is_late(const memprof_record& record);
  CallstackId callstack_of(StackHash stack);
  void begin(bool announced);
  void on_bad_records(std::uint32_t buffer, std::uint64_t n);
  void after_loss(std::uint32_t buffer, std::uint64_t records);
  void on_records(const BatchView& batch);
  bool overtaken(std::uint32_t buffer, std::uint64_t first_seq, std::size_t records) const;
  std::size_t seen_before(std::uint32_t buffer, std::uint64_t first_seq, std::size_t records,
                          std::size_t max_records);
  void on_record(const BatchView& batch, memprof_record record);
  SampleEvent follow(std::uint32_t buffer, const memprof_record& record, CallstackId callstack);

  DropCounters drops_;
  CallstackTable callstacks_;
  Pairer pairer_;
  Aggregator aggregator_;
  LostAllocations lost_allocations_;
  Sessions sessions_;
  bool follows_ = false;    // the agent follows blocks across sessions
  bool of_before_ = false;  // the batch belongs to a session before the current one
  PackedDecoder packed_;
  bool runtime_captures_ = false;   // according to the last batch from the probe
  std::optional<HeapMeter> meter_;  // observe mode
  const double native_heap_rate_;
  bool native_ended_ = false;
  std::uint32_t native_generation_ = 0;   // generation of the native heap; 0: no data yet
  std::uint64_t native_events_ = 0;       // of the native heap
  std::uint64_t native_events_lost_ = 0;  // according to the last event
  // In observe mode and for the native heap: the callstack of the latest capture.
  StackHash last_captured_;
  CallstackId last_callstack_;
  SampleObserver* observer_ = nullptr;
  std::array<std::optional<std::uint64_t>, MEMPROF_BUFFERS> next_seq_;  // by buffer
  bool records_lost_ = false;  // between the last processed record and the next
  std::uint64_t alloc_events_before_ = 0;
  std::uint64_t captures_seen_ = 0;
  std::uint64_t frames_seen_ = 0;
  std::uint64_t batches_seen_ = 0;
  std::uint64_t captures_dropped_ = 0;
  std::uint64_t captures_known_ns_ = 0;  // time of the last captures_dropped_
  std::uint64_t frametables_registered_ = 0;
  bool exec_seen_ = false;
  std::vector<int> children_;
};

}  // namespace memprofd
