// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/target_metrics.h"

#include "absl/strings/str_cat.h"
#include "daemon/query/observe_mode_rules.h"

namespace memprofd {
namespace {

constexpr MetricName kInfo{"memprofd_target_info", "Identity of the target; always 1."};
constexpr MetricName kUp{"memprofd_target_up",
                         "1 while the target is sampled or waited for, 0 after its end."};
constexpr MetricName kEnd{"memprofd_target_end",
                          "How the target ended; cause is exit, signal, out_of_memory, exec or "
                          "unknown. Always 1, kept for --history.retention."};
constexpr MetricName kRate{"memprofd_sampling_rate", "Samples per allocated word."};
constexpr MetricName kRequestedRate{
    "memprofd_requested_sampling_rate",
    "Requested samples per allocated word; an overhead budget may have lowered the rate."};
constexpr MetricName kOverhead{"memprofd_overhead_ratio",
                               "Cost of profiling as a share of the target's own CPU time, "
                               "estimated over the last few seconds; 0.01 is 1 %."};
constexpr MetricName kBudget{
    "memprofd_overhead_budget_ratio",
    "Upper limit of memprofd_overhead_ratio (--max-overhead); 0.01 is 1 %."};
constexpr MetricName kExhausted{
    "memprofd_overhead_budget_exhausted",
    "1 while even the lowest sampling rate costs more than the overhead budget, else 0."};
constexpr MetricName kRateChanges{
    "memprofd_sampling_rate_changes_total",
    "Changes of the sampling rate for the overhead budget or --cpu.max."};
constexpr MetricName kAllocated{"memprofd_allocated_bytes_total",
                                "Bytes allocated since the attach, estimated from samples."};
constexpr MetricName kAllocatedError{
    "memprofd_allocated_bytes_stderr",
    "One standard error of memprofd_allocated_bytes_total, in bytes."};
constexpr MetricName kPromoted{
    "memprofd_promoted_bytes_total",
    "Bytes promoted to the major heap since the attach, estimated from samples."};
constexpr MetricName kPromotedError{
    "memprofd_promoted_bytes_stderr",
    "One standard error of memprofd_promoted_bytes_total, in bytes."};
constexpr MetricName kLive{
    "memprofd_live_bytes",
    "Bytes allocated since the attach and not deallocated yet, estimated from samples."};
constexpr MetricName kLiveError{"memprofd_live_bytes_stderr",
                                "One standard error of memprofd_live_bytes, in bytes."};
constexpr MetricName kLiveExternal{
    "memprofd_live_external_bytes",
    "Bytes of memprofd_live_bytes outside of the heap that custom blocks such as Bigarrays hold."};
constexpr MetricName kLiveExternalError{
    "memprofd_live_external_bytes_stderr",
    "One standard error of memprofd_live_external_bytes, in bytes."};
constexpr MetricName kDeallocated{"memprofd_deallocated_bytes_total",
                                  "Bytes allocated since the attach and deallocated, by the heap "
                                  "in which they died, estimated from samples."};
constexpr MetricName kDeallocatedError{
    "memprofd_deallocated_bytes_stderr",
    "One standard error of memprofd_deallocated_bytes_total, in bytes."};
constexpr MetricName kUnsampled{"memprofd_unsampled_bytes_total",
                                "Lower bound of the bytes that OCaml 5 domains allocated between "
                                "two sampling sessions, at rate changes; they are in no estimate."};
constexpr MetricName kLiveC{
    "memprofd_live_c_bytes",
    "Bytes of native memory (malloc) allocated since the attach and not freed, if followed; "
    "includes parts of the OCaml heap and external memory."};
constexpr MetricName kLiveCError{"memprofd_live_c_bytes_stderr",
                                 "One standard error of memprofd_live_c_bytes, in bytes."};
constexpr MetricName kResidentC{
    "memprofd_resident_c_bytes",
    "Part of memprofd_live_c_bytes in resident pages, at the last reading."};
constexpr MetricName kResidentCError{"memprofd_resident_c_bytes_stderr",
                                     "One standard error of memprofd_resident_c_bytes, in bytes."};
constexpr MetricName kSamples{"memprofd_samples_total",
                              "Sampled blocks that were allocated, promoted, deallocated."};
constexpr MetricName kLiveSamples{"memprofd_live_samples", "Sampled blocks that are followed now."};
constexpr MetricName kRing{"memprofd_ring_buffer_used_ratio",
                           "Share of the target's ring buffer that was not read yet, 0 to 1."};
constexpr MetricName kPaused{"memprofd_target_paused_seconds_total",
                             "Time for which memprofd has paused the target."};
constexpr MetricName kAttach{"memprofd_attach_seconds",
                             "Time from the request to attach until sampling ran."};
constexpr MetricName kSnapshotTaken{
    "memprofd_snapshot_timestamp_seconds",
    "Moment of the target's numbers, Unix time; of an ended target, about that of its end."};

constexpr MetricName kMemprofdCpu{"memprofd_target_cpu_ratio",
                                  "Share of one processor that memprofd uses for events of the "
                                  "target, over the last few seconds."};
constexpr MetricName kHeld{
    "memprofd_sampling_rate_held",
    "1 while the sampling rate is lower than requested because of --cpu.max, else 0."};

void add_overhead(const OverheadInfo& overhead, MetricFamilies& out) {
  out.gauge(kMemprofdCpu, {}, overhead.memprofd_cores);
  if (overhead.requested_rate == 0) return;
  out.gauge(kRequestedRate, {}, overhead.requested_rate);
  out.gauge(kOverhead, {}, overhead.measured);
  out.gauge(kHeld, {}, overhead.held ? 1 : 0);
  if (overhead.budget > 0) {
    out.gauge(kBudget, {}, overhead.budget);
    out.gauge(kExhausted, {}, overhead.exhausted ? 1 : 0);
  }
  out.counter(kRateChanges, {{"reason", "over_budget"}}, static_cast<double>(overhead.lowered));
  out.counter(kRateChanges, {{"reason", "below_budget"}}, static_cast<double>(overhead.raised));
}

// Empty if memprofd detached from a program that continued.
std::string end_cause(const TargetInfo& info) {
  return info.state == TargetState::kExited ? std::string(cause_name(info.end.cause)) : "";
}

// "2" for an exit, "SIGSEGV" for a signal.
std::string end_code(const ProgramEnd& end) {
  return end.cause == EndCause::kExit ? absl::StrCat(end.code) : signal_name(end);
}

void add_session(const TargetInfo& info, MetricFamilies& out) {
  if (info.follows_blocks()) out.gauge(kRate, {}, info.sampling_rate);
  out.counter(kPaused, {}, info.paused_seconds);
  out.gauge(kAttach, {}, info.attach_seconds);
}

void add_deallocated(const ProfileSnapshot& target, MetricFamilies& out) {
  const auto deallocated = target.deallocated_by_heap_kind();
  for (int heap_kind = 0; heap_kind < kHeapKinds; ++heap_kind) {
    const bool of_c = static_cast<HeapKind>(heap_kind) == HeapKind::kC;
    if (!(of_c ? follows_native_blocks(target.info) : target.info.follows_blocks())) continue;
    const MetricLabels labels{{"heap", kHeapKindWords[heap_kind]}};
    out.counter(kDeallocated, labels, deallocated[heap_kind].bytes());
    out.error(kDeallocatedError, labels, deallocated[heap_kind].stderr_bytes());
  }
}

// Adds the counts of OCaml blocks by their fate.
void add_fates(const ProfileSnapshot& target, MetricFamilies& out) {
  const TargetCounters& counters = target.counters;
  out.counter(kPromoted, {}, counters.promoted.bytes());
  out.gauge(kPromotedError, {}, counters.promoted.stderr_bytes());
  out.gauge(kLive, {}, counters.live.bytes());
  out.gauge(kLiveError, {}, counters.live.stderr_bytes());
  const Estimate external = target.live_external();
  out.gauge(kLiveExternal, {}, external.bytes());
  out.gauge(kLiveExternalError, {}, external.stderr_bytes());
  // Only OCaml 5 has this gap.
  if (counters.unsampled_words != 0 || target.info.runtime_version.starts_with("5")) {
    out.counter(kUnsampled, {}, static_cast<double>(counters.unsampled_words) * kBytesPerWord);
  }
}

void add_allocated(const ProfileSnapshot& target, MetricFamilies& out) {
  const auto add = [&](HeapKind heap_kind, Source source, const Estimate& allocated) {
    const MetricLabels labels{{"heap", kHeapKindWords[static_cast<int>(heap_kind)]},
                              {"source", kSourceWords[static_cast<int>(source)]}};
    out.counter(kAllocated, labels, allocated.bytes());
    out.error(kAllocatedError, labels, allocated.stderr_bytes());
  };
  Estimate external;
  for (const Heap heap : {Heap::kMinor, Heap::kMajor}) {
    const auto& by_source = target.counters.allocated[static_cast<int>(heap)];
    for (const Source source : {Source::kNormal, Source::kMarshal}) {
      add(heap_kind_of(heap, source), source, by_source[static_cast<int>(source)]);
    }
    external += by_source[static_cast<int>(Source::kCustom)];
  }
  add(HeapKind::kExternal, Source::kCustom, external);
  if (!follows_native_blocks(target.info)) return;
  const ProfileSnapshot::NativeHeap native_heap = target.native_heap();
  add(HeapKind::kC, Source::kMalloc, native_heap.allocated);
  out.gauge(kLiveC, {}, native_heap.live.bytes());
  out.gauge(kLiveCError, {}, native_heap.live.stderr_bytes());
  out.gauge(kResidentC, {}, native_heap.resident.bytes());
  out.gauge(kResidentCError, {}, native_heap.resident.stderr_bytes());
}

void add_events(const ProfileSnapshot& target, MetricFamilies& out) {
  const auto samples = [&](const char* event, std::uint64_t n) {
    out.counter(kSamples, {{"event", event}}, static_cast<double>(n));
  };
  samples("alloc", target.counters.alloc_events);
  if (target.info.follows_blocks()) {
    samples("promote", target.counters.promote_events);
    samples("dealloc", target.counters.dealloc_events);
    out.gauge(kLiveSamples, {}, static_cast<double>(target.live_samples_tracked));
  }
  if (target.ring_bytes_total > 0) {
    out.gauge(
        kRing, {},
        static_cast<double>(target.ring_bytes_used) / static_cast<double>(target.ring_bytes_total));
  }
}

}  // namespace

void add_target_identity(const ProfileSnapshot& target, MetricFamilies& out) {
  const TargetInfo& info = target.info;
  MetricLabels identity;
  const auto values = label_values(info);
  for (std::size_t i = 0; i < values.size(); ++i) {
    identity.push_back({std::string(kTargetLabels[i]), values[i]});
  }
  identity.push_back({"forked_from", info.forked_from == 0 ? "" : absl::StrCat(info.forked_from)});
  out.gauge(kInfo, std::move(identity), 1);
  out.gauge(kUp, {}, is_active(info.state) ? 1 : 0);
  out.gauge(kSnapshotTaken, {}, static_cast<double>(target.time_ns) / 1e9);
  if (!is_active(info.state)) {
    out.gauge(kEnd,
              {{"state", std::string(state_name(info.state))},
               {"cause", end_cause(info)},
               {"code", end_code(info.end)}},
              1);
  }
}

void add_target_metrics(const ProfileSnapshot& target, MetricFamilies& out) {
  out.only_counters(!is_active(target.info.state));
  add_session(target.info, out);
  add_overhead(target.info.overhead, out);
  add_allocated(target, out);
  add_deallocated(target, out);
  if (target.info.follows_blocks()) add_fates(target, out);
  add_events(target, out);
  out.only_counters(false);
}

}  // namespace memprofd
