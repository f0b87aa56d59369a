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

// State of a target. state_name() has the words that are shown.
enum class TargetState {
  kWaiting,  // attached or about to; the target has not reached a safe point yet
  kSampling,
  kDetached,  // sampling ended on request; counts remain readable
  kExited,    // the process is gone; counts remain readable
  kFailed,    // see TargetInfo::message
};
std::string_view state_name(TargetState state);
// Not one that has ended.
constexpr bool is_active(TargetState state) {
  return state == TargetState::kSampling || state == TargetState::kWaiting;
}

// Origin of a target's numbers. mode_name() has the words that are shown.
enum class TargetMode {
  kAgent,    // an agent in the program samples
  kObserve,  // seen from outside: of blocks only their allocation is known
  kTrace,    // a trace file
};
std::string_view mode_name(TargetMode mode);

// The share of a target's CPU that profiling uses, and the effect of its budget. In observe mode
// only memprofd_cores is known.
struct OverheadInfo {
  double budget = 0;          // most of the target's own CPU that profiling may take; 0: no limit
  double measured = 0;        // the share used in the last seconds, likewise
  double requested_rate = 0;  // the sampling rate is this or lower; 0: in observe mode
  double sample_seconds = 0;  // of the target's CPU that one sample costs; 0: not known yet
  std::uint64_t lowered = 0;  // times
  std::uint64_t raised = 0;
  bool exhausted = false;     // the lowest rate costs more than the budget
  bool held = false;          // --cpu.max keeps the rate below the requested one
  double memprofd_cores = 0;  // of a processor that memprofd takes for it, over the last seconds
};

// Names the program of a process as long as the machine runs.
struct ProgramIdentity {
  std::uint64_t start_time_ticks = 0;  // of the process, since boot
  FileId file;                         // of the program
  std::uint64_t load_bias = 0;         // from its file's addresses to the process's

  friend bool operator==(const ProgramIdentity&, const ProgramIdentity&) = default;
};

// Constant while attached, except state, capture, rate, message, overhead, and requested settings.
struct TargetInfo {
  int pid = 0;
  int container_pid = 0;  // in the target's own pid namespace; 0: the same
  int forked_from = 0;    // the target that it is a child of; 0: none
  std::string comm;
  std::string exe;              // as the target sees it
  std::string unit;             // of systemd: "shop.service"; empty: of none
  std::string container;        // the first digits of its id; empty: in none
  std::string runtime_version;  // "4.13.1"
  std::string ocamlrunparam;    // what the program was started with
  TargetMode mode = TargetMode::kAgent;
  std::string capture;  // capture mode: "runtime" or "kernel"
  TargetState state = TargetState::kWaiting;
  // one line: why it waits, is observed, or is sampled at a lower rate than requested; what failed;
  // how it ended
  std::string message;
  ProgramEnd end;            // once it is kExited
  double sampling_rate = 0;  // per word, of the running session; 0 in observe mode
  OverheadInfo overhead;
  double attach_seconds = 0;  // daemon time from the request to sampling
  double paused_seconds = 0;  // sum of the time the target was stopped by us
  ProgramIdentity program;
  // The user beside root who may see what the program holds and has published, even after its end.
  // Empty for good once the kernel has denied that user access.
  std::optional<ProcessUser> owner;
  AttachRequest asked;    // to attach to it as it is attached now: nothing is left to a default
  bool is_asked = false;  // still requested: not detached by a user, and without a fault
  // A trace of C's memory, which has that as external: the format has no other word for it.
  bool external_is_c = false;

  // True if the fate of blocks is known: not in observe mode.
  bool follows_blocks() const { return mode != TargetMode::kObserve; }
  // Bytes of C's memory for one sample; 0: it is not followed.
  std::uint64_t c_heap_interval() const {
    return follows_blocks() ? asked.native_heap_interval.value_or(0) : 0;
  }
  // The rate before a budget lowered it.
  double requested_rate() const {
    return overhead.requested_rate > 0 ? overhead.requested_rate : sampling_rate;
  }
};

// Labels that identify a target in metrics and select it in a scrape.
inline constexpr std::array<std::string_view, 6> kTargetLabels{
    "comm", "exe", "unit", "container", "runtime_version", "mode"};
// Their values, in that order.
std::array<std::string, kTargetLabels.size()> label_values(const TargetInfo& info);

}  // namespace memprofd
