// SPDX-License-Identifier: Apache-2.0
// Facts about a target other than its counts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/model/control.h"
#include "daemon/model/program_end.h"
#include "daemon/util/file_id.h"

namespace memprofd {

// State of a target; state_name() gives the words shown to users.
enum class TargetState {
  kWaiting,  // attached or about to be, but the target has not reached a safe point yet
  kSampling,
  kDetached,  // sampling ended on request; counts remain readable
  kExited,    // the process is gone; counts remain readable
  kFailed,    // see TargetInfo::message
};
std::string_view state_name(TargetState state);
// True unless the target has ended.
constexpr bool is_active(TargetState state) {
  return state == TargetState::kSampling || state == TargetState::kWaiting;
}

// Source of a target's numbers; mode_name() gives the words shown to users.
enum class TargetMode {
  kAgent,    // an agent in the program samples
  kObserve,  // observed from outside: only allocations of blocks are known
  kTrace,    // a trace file
};
std::string_view mode_name(TargetMode mode);

// The share of a target's CPU that profiling uses, and the effect of the overhead budget. In
// observe mode only memprofd_cores is known.
struct OverheadInfo {
  double budget = 0;          // maximum share of the target's own CPU for profiling; 0: no limit
  double measured = 0;        // share used in the last seconds
  double requested_rate = 0;  // upper bound of the sampling rate; 0 in observe mode
  double sample_seconds = 0;  // target CPU time per sample; 0: not known yet
  std::uint64_t lowered = 0;  // number of times the rate was lowered
  std::uint64_t raised = 0;
  bool exhausted = false;     // the lowest rate costs more than the budget
  bool held = false;          // --cpu.max keeps the rate below the requested one
  double memprofd_cores = 0;  // processors that memprofd uses for this target, over the last
                              // seconds
};

// Identifies the program of a process until the machine reboots.
struct ProgramIdentity {
  std::uint64_t start_time_ticks = 0;  // start time of the process, since boot
  FileId file;                         // executable
  std::uint64_t load_bias = 0;         // process address minus file address

  friend bool operator==(const ProgramIdentity&, const ProgramIdentity&) = default;
};

// Constant while attached, except state, capture, rate, message, overhead and requested settings.
struct TargetInfo {
  int pid = 0;
  int container_pid = 0;  // pid in the target's own namespace; 0: the same pid
  int forked_from = 0;    // parent target; 0: none
  std::string comm;
  std::string exe;              // path inside the target's mount namespace
  std::string unit;             // systemd unit: "shop.service"; empty: none
  std::string container;        // first digits of the container id; empty: none
  std::string runtime_version;  // "4.13.1"
  std::string ocamlrunparam;    // OCAMLRUNPARAM at program start
  TargetMode mode = TargetMode::kAgent;
  std::string capture;  // capture mode: "runtime" or "kernel"
  TargetState state = TargetState::kWaiting;
  // One line: why the target waits, is observed or is sampled at a lower rate than requested, what
  // failed, or how it ended.
  std::string message;
  ProgramEnd end;            // valid when the state is kExited
  double sampling_rate = 0;  // samples per word in the running session; 0 in observe mode
  OverheadInfo overhead;
  double attach_seconds = 0;  // time from the request to the first sampling, by memprofd's clock
  double paused_seconds = 0;  // total time that memprofd kept the target stopped
  ProgramIdentity program;
  // The user besides root who may see what the program contains and has published, even after its
  // end. Stays empty once the kernel has denied that user access.
  std::optional<ProcessUser> owner;
  AttachRequest asked;  // request that would attach with the current settings; no field relies on a
                        // default
  bool is_asked = false;  // still requested: no user detached it and it did not fail
  // A trace of the native heap. The trace format has no other word for it than external.
  bool external_is_c = false;

  // True if the fate of blocks is known, that is, not in observe mode.
  bool follows_blocks() const { return mode != TargetMode::kObserve; }
  // Bytes of native heap per sample; 0: it is not profiled.
  std::uint64_t c_heap_interval() const {
    return follows_blocks() ? asked.native_heap_interval.value_or(0) : 0;
  }
  // The sampling rate before the budget lowered it.
  double requested_rate() const {
    return overhead.requested_rate > 0 ? overhead.requested_rate : sampling_rate;
  }
};

// Labels that identify a target in metrics and select it in a scrape.
inline constexpr std::array<std::string_view, 6> kTargetLabels{
    "comm", "exe", "unit", "container", "runtime_version", "mode"};
// Their values, in the same order.
std::array<std::string, kTargetLabels.size()> label_values(const TargetInfo& info);

}  // namespace memprofd
