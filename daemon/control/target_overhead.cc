// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/target_overhead.h"

#include "daemon/attach/budget/trap_cost.h"
#include "daemon/util/clock.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kOverheadWindow{1};
// A window ends after this time even if a nearly idle target has not used kMinCpuSeconds.
constexpr std::chrono::seconds kLongestWindow{10};

// Estimates the probe hits without BPF statistics: each record in the ring is one hit.
ProbeRuns estimated_runs(memprof_capture_by capture, const PipelineSignals& signals) {
  const std::uint64_t walks =
      capture == MEMPROF_CAPTURE_BY_KERNEL ? signals.captures_seen.load() : 0;
  return {.hits = walks + signals.batches_seen, .program_ns = walks * kUsualWalkNs};
}

// CPU time between two readings, in seconds; 0 if the process has ended.
double seconds_between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) * 1e-9 : 0;
}

}  // namespace

TargetOverhead::TargetOverhead(double share, double ceiling, CaptureMode capture)
    : statistics_(BpfStatistics::enable()),
      budget_(share, ceiling, capture_of(capture), trap_ns()),
      mode_(capture) {
  if (mode_ == CaptureMode::kAuto && statistics_) choice_.emplace(trap_ns());
}

TargetOverhead::Due TargetOverhead::measure(const AttachedTarget& target, const KernelSide& kernel,
                                            const PipelineSignals& signals) {
  if (!began_) {
    began_ = read(target, kernel, signals);
    return {};
  }
  const auto lasted = Clock::now() - began_->at;
  if (lasted < kOverheadWindow) return {};
  // Tested first, because a full reading takes one system call per probe.
  if (lasted < kLongestWindow &&
      seconds_between(began_->cpu_ns, process_cpu_ns(target.target().pid)) <
          OverheadBudget::kMinCpuSeconds)
    return {};
  const std::optional<Reading> now = read(target, kernel, signals);
  if (!now) return {};
  const OverheadWindow window = between(*began_, *now);
  began_ = now;
  Due due;
  const bool tried = choice_ && choice_->trying();
  if (!tried) due.rate = budget_.judge(window);
  if (choice_ && due.rate == OverheadBudget::Change::kNone)
    due.capture =
        choice_->judge(window.seconds, window.counts, target.capture(), budget_.limits_rate());
  if (due.capture || tried) budget_.settle();
  return due;
}

OverheadInfo TargetOverhead::info() const {
  return {.budget = budget_.share(),
          .measured = budget_.overhead(),
          .requested_rate = budget_.ceiling(),
          .sample_seconds = budget_.sample_seconds().value_or(0),
          .lowered = budget_.lowered(),
          .raised = budget_.raised(),
          .exhausted = budget_.exhausted(),
          .held = budget_.held()};
}

std::optional<TargetOverhead::Reading> TargetOverhead::read(const AttachedTarget& target,
                                                            const KernelSide& kernel,
                                                            const PipelineSignals& signals) const {
  const std::optional<ProbeRuns> runs =
      statistics_ ? kernel.probes().runs() : estimated_runs(target.capture(), signals);
  if (!runs) return std::nullopt;
  const bool walked = target.capture() == MEMPROF_CAPTURE_BY_AGENT;  // constant within a window
  return Reading{.at = Clock::now(),
                 .cpu_ns = process_cpu_ns(target.target().pid),
                 .memprofd_ns = signals.ingest_ns,
                 .counts = {.samples = signals.alloc_events + signals.records_lost,
                            .frames = walked ? 0 : signals.frames_seen.load(),
                            .walked = walked ? signals.frames_seen.load() : 0,
                            .probe_hits = runs->hits,
                            .program_ns = runs->program_ns}};
}

OverheadWindow TargetOverhead::between(const Reading& begin, const Reading& end) {
  const ProfilingCounts &from = begin.counts, &to = end.counts;
  return {.seconds = std::chrono::duration<double>(end.at - begin.at).count(),
          .cpu_seconds = seconds_between(begin.cpu_ns, end.cpu_ns),
          .memprofd_seconds = static_cast<double>(end.memprofd_ns - begin.memprofd_ns) * 1e-9,
          .counts = {.samples = to.samples - from.samples,
                     .frames = to.frames - from.frames,
                     .walked = to.walked - from.walked,
                     .probe_hits = to.probe_hits - from.probe_hits,
                     .program_ns = to.program_ns - from.program_ns}};
}

}  // namespace memprofd
