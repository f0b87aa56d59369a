// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/grpc_convert.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "daemon/export/api/rss_convert.h"
#include "daemon/history/snapshot.h"
#include "daemon/util/clock.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

void fill_drops(const DropCounters& drops, pb::Target& out) {
  out.set_dropped_events(drops.lost());
  out.set_given_up_events(drops.given_up());
  for (int i = 0; i < kDrops; ++i) {
    const Drop drop = static_cast<Drop>(i);
    if (drops.get(drop) == 0) continue;
    pb::Drop& message = *out.add_drops();
    message.set_stage(std::string(drop_name(drop).stage));
    message.set_reason(std::string(drop_name(drop).reason));
    message.set_count(drops.get(drop));
    message.set_given_up(drop_name(drop).given_up);
  }
}

void fill_pauses(const memprof_pauses& pauses, pb::GcPauses& out) {
  out.set_sum_seconds(static_cast<double>(pauses.sum_ns) / kNsPerSecond);
  out.set_count(std::accumulate(std::begin(pauses.count), std::end(pauses.count), 0ULL));
  out.set_p50_seconds(pause_quantile_seconds(pauses, 0.5));
  out.set_p99_seconds(pause_quantile_seconds(pauses, 0.99));
}

void fill_gc(const GcStats& gc, pb::GcStats& out) {
  constexpr std::uint64_t kWord = 8;
  out.set_minor_words(gc.minor_words);
  out.set_promoted_words(gc.promoted_words);
  out.set_major_words(gc.major_words);
  out.set_minor_collections(gc.minor_collections);
  out.set_major_collections(gc.major_collections);
  out.set_compactions(gc.compactions);
  out.set_heap_bytes(gc.heap_words * kWord);
  out.set_top_heap_bytes(gc.top_heap_words * kWord);
  out.set_heap_chunks(gc.heap_chunks);
  if (gc.free_words) out.set_heap_free_bytes(*gc.free_words * kWord);
  out.set_minor_heap_bytes(gc.minor_heap_words * kWord);
}

void fill_all_pauses(const GcStats& gc, pb::GcStats& out) {
  fill_pauses(gc.pauses[MEMPROF_GC_MINOR], *out.mutable_minor_pauses());
  fill_pauses(gc.pauses[MEMPROF_GC_MAJOR_SLICE], *out.mutable_major_slice_pauses());
}

void fill_overhead(const OverheadInfo& overhead, pb::Overhead& out) {
  out.set_budget_ratio(overhead.budget);
  out.set_ratio(overhead.measured);
  out.set_requested_sampling_rate(overhead.requested_rate);
  out.set_rate_lowered(overhead.lowered);
  out.set_rate_raised(overhead.raised);
  out.set_exhausted(overhead.exhausted);
  out.set_held(overhead.held);
  out.set_memprofd_ratio(overhead.memprofd_cores);
  if (overhead.sample_seconds > 0) out.set_sample_seconds(overhead.sample_seconds);
}

pb::EndCause to_proto(EndCause cause) {
  switch (cause) {
    case EndCause::kUnknown:
      return pb::END_CAUSE_UNSPECIFIED;
    case EndCause::kExit:
      return pb::END_CAUSE_EXIT;
    case EndCause::kSignal:
      return pb::END_CAUSE_SIGNAL;
    case EndCause::kOutOfMemory:
      return pb::END_CAUSE_OUT_OF_MEMORY;
    case EndCause::kExec:
      return pb::END_CAUSE_EXEC;
  }
  return pb::END_CAUSE_UNSPECIFIED;
}

void fill_end(const ProfileSnapshot& target, pb::Target& out) {
  if (is_active(target.info.state)) return;
  out.set_ended_unix_ns(static_cast<std::int64_t>(target.time_ns));
  if (target.info.state != TargetState::kExited) return;
  const ProgramEnd& end = target.info.end;
  out.mutable_end()->set_cause(to_proto(end.cause));
  if (end.cause == EndCause::kExit) out.mutable_end()->set_exit_code(end.code);
  out.mutable_end()->set_signal(signal_name(end));
}

pb::CapturedBy captured_by(const TargetInfo& info) {
  if (info.capture == "runtime") return pb::CAPTURED_BY_RUNTIME;
  if (info.capture == "agent") return pb::CAPTURED_BY_AGENT;
  return info.capture == "kernel" ? pb::CAPTURED_BY_KERNEL : pb::CAPTURED_BY_UNSPECIFIED;
}

void fill_info(const TargetInfo& info, pb::Target& out) {
  out.set_pid(info.pid);
  out.set_container_pid(info.container_pid);
  out.set_forked_from(info.forked_from);
  out.set_comm(valid_utf8(info.comm));
  out.set_exe(valid_utf8(info.exe));
  out.set_unit(valid_utf8(info.unit));
  out.set_container(valid_utf8(info.container));
  out.set_runtime_version(valid_utf8(info.runtime_version));
  out.set_mode(std::string(mode_name(info.mode)));
  out.set_target_mode(info.mode == TargetMode::kAgent ? pb::TARGET_MODE_AGENT
                                                      : pb::TARGET_MODE_OBSERVE);
  out.set_capture(info.capture);
  out.set_captured_by(captured_by(info));
  out.set_process_start_ticks(info.program.start_time_ticks);
  out.set_state(to_proto(info.state));
  out.set_message(valid_utf8(info.message));
  out.set_sampling_rate(info.sampling_rate);
  out.set_paused_seconds(info.paused_seconds);
  out.set_attach_seconds(info.attach_seconds);
  if (info.overhead.requested_rate > 0) fill_overhead(info.overhead, *out.mutable_overhead());
}

void fill_allocated(const TargetCounters& counters, const UnseenWords& unseen, pb::Target& out) {
  *out.mutable_allocated() = to_proto(counters.all_allocated(), unseen.flow, unseen.missing);
  out.set_alloc_events(counters.alloc_events);
}

// Reported as long as it is more than what is followed now.
void fill_live_before(const ProfileSnapshot& target, pb::Target& out) {
  const Estimate& before = target.counters.forgotten_live;
  if (target.counters.forgotten_ns == 0 || before.words <= target.counters.live.words) return;
  *out.mutable_live_before() = to_proto(before, before.grain_or(target.info.sampling_rate));
  out.set_live_since_unix_ns(static_cast<std::int64_t>(target.time_ns) -
                             static_cast<std::int64_t>(target.forgotten_seconds * 1e9));
}

void fill_fates(const TargetCounters& counters, const UnseenWords& unseen, pb::Target& out) {
  const auto& died = counters.deallocated;
  *out.mutable_promoted() = to_proto(counters.promoted, unseen.flow, unseen.missing);
  *out.mutable_live() = to_proto(counters.live, unseen.live, unseen.missing);
  *out.mutable_died_young() =
      to_proto(died[static_cast<int>(Heap::kMinor)], unseen.flow, unseen.missing);
  *out.mutable_died_old() =
      to_proto(died[static_cast<int>(Heap::kMajor)], unseen.flow, unseen.missing);
  out.set_promote_events(counters.promote_events);
  out.set_dealloc_events(counters.dealloc_events);
}

}  // namespace

double pause_quantile_seconds(const memprof_pauses& pauses, double q) {
  const double total = std::accumulate(std::begin(pauses.count), std::end(pauses.count), 0.0);
  double below = 0;
  for (unsigned i = 0; i < MEMPROF_PAUSE_BUCKETS; ++i) {
    below += static_cast<double>(pauses.count[i]);
    if (below > 0 && below >= q * total) return static_cast<double>(1024ULL << i) / kNsPerSecond;
  }
  return 0;
}

pb::TargetState to_proto(TargetState state) {
  switch (state) {
    case TargetState::kWaiting:
      return pb::TARGET_STATE_WAITING;
    case TargetState::kSampling:
      return pb::TARGET_STATE_SAMPLING;
    case TargetState::kDetached:
      return pb::TARGET_STATE_DETACHED;
    case TargetState::kExited:
      return pb::TARGET_STATE_EXITED;
    case TargetState::kFailed:
      return pb::TARGET_STATE_FAILED;
  }
  return pb::TARGET_STATE_UNSPECIFIED;
}

std::string_view state_word(pb::TargetState state) {
  for (const TargetState known :
       {TargetState::kWaiting, TargetState::kSampling, TargetState::kDetached, TargetState::kExited,
        TargetState::kFailed}) {
    if (to_proto(known) == state) return state_name(known);
  }
  return "unknown";
}

pb::Estimate to_proto(const Estimate& estimate, double unseen_words, double missing_words) {
  pb::Estimate out;
  const Limits limits = estimate.limits_bytes(unseen_words, missing_words);
  out.set_bytes_lower(limits.lower);
  out.set_bytes_upper(limits.upper);
  out.set_bytes(estimate.bytes());
  out.set_bytes_stderr(estimate.stderr_bytes());
  out.set_samples(estimate.samples);
  return out;
}

pb::Target to_proto(const ProfileSnapshot& target) {
  pb::Target out;
  fill_info(target.info, out);
  fill_end(target, out);
  fill_drops(target.drops, out);
  const UnseenWords unseen = target.unseen_words();
  out.set_missing_bytes(unseen.missing * kBytesPerWord);
  fill_allocated(target.counters, unseen, out);
  if (target.info.follows_blocks()) {
    fill_fates(target.counters, unseen, out);
    fill_live_before(target, out);
    *out.mutable_live_external() = to_proto(target.live_external(), unseen.live, unseen.missing);
  }
  if (target.gc.valid) fill_gc(target.gc, *out.mutable_gc());
  if (target.memory) *out.mutable_memory() = to_proto(memory_parts(*target.memory, target.gc));
  if (target.gc.valid && target.info.follows_blocks()) {
    fill_all_pauses(target.gc, *out.mutable_gc());
  }
  out.set_attached_unix_ns(static_cast<std::int64_t>(target.attached_ns));
  out.set_live_samples(target.live_samples_tracked);
  out.set_stacks_interned(target.stacks_interned);
  out.set_ring_bytes_used(target.ring_bytes_used);
  out.set_ring_bytes_total(target.ring_bytes_total);
  return out;
}

pb::Finding to_proto(const Finding& finding) {
  pb::Finding out;
  switch (finding.level) {
    case Finding::Level::kOk:
      out.set_level(pb::FINDING_LEVEL_OK);
      break;
    case Finding::Level::kWarning:
      out.set_level(pb::FINDING_LEVEL_WARNING);
      break;
    case Finding::Level::kProblem:
      out.set_level(pb::FINDING_LEVEL_PROBLEM);
      break;
  }
  out.set_subject(valid_utf8(finding.subject));
  out.set_detail(valid_utf8(finding.detail));
  out.set_remedy(valid_utf8(finding.remedy));
  return out;
}

}  // namespace memprofd
