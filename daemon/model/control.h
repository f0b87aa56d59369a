// SPDX-License-Identifier: Apache-2.0
// Requests to the daemon's control, and the daemon's statistics.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/model/requested_process.h"

namespace memprofd {

// Default sampling rate in samples per word; a budget may lower it.
inline constexpr double kUsualSamplingRate = 1e-4;

// Default share of a program's CPU that profiling may use.
inline constexpr double kUsualMaxOverhead = 0.01;

// Default of --cpu.max: the share of a processor that memprofd itself may use.
inline constexpr double kUsualCpuMax = 0.5;

// Default sampling interval of the native heap in bytes per sample, if the native heap is profiled.
inline constexpr std::uint64_t kUsualNativeHeapInterval = 512u << 10;
inline constexpr std::uint64_t kMinNativeHeapInterval = 1u << 10,
                               kMaxNativeHeapInterval = 1ull << 40;

enum class AttachMode {
  kDefault,  // the daemon's default
  kAuto,     // the agent if possible, else observe mode
  kAgent,    // the agent, or fail
  kObserve,
};

struct AttachRequest {
  int pid = 0;
  double sampling_rate = 0;  // 0: the daemon's default
  bool no_inject = false;
  AttachMode mode = AttachMode::kDefault;
  bool follow_forks = false;  // child processes become targets too
  // Share of the target's CPU; 0: no budget; nullopt: the daemon's default.
  std::optional<double> max_overhead;
  std::uint64_t start_time_ticks = 0;  // of the requested process; 0: any process with the pid
  std::optional<ProcessUser> user;     // required owner of the process; nullopt: any
  // Bytes of native heap per sample; 0: do not profile it; nullopt: the daemon's default.
  std::optional<std::uint64_t> native_heap_interval;
};

// A change of a target's sampling rate or budget.
struct RateRequest {
  double sampling_rate = 0;  // 0: unchanged
  // Share of the target's CPU; 0: no budget; nullopt: unchanged.
  std::optional<double> max_overhead;
};

// How a snapshot keeps the contents of strings and float arrays, which may be secret.
enum class HeapContents : std::uint8_t {
  kNone,
  kFingerprints,  // which strings are equal
  kContents,
};

// A request for a snapshot of a target's heap.
struct HeapRequest {
  RequestedProcess process;
  double max_pause_seconds = 0.05;
  HeapContents contents = HeapContents::kNone;
};

struct HeapSummary {
  double predicted_pause_seconds = 0;
  double pause_seconds = 0;
  std::uint64_t heap_words = 0;
  std::uint64_t blocks = 0;  // blocks in use, including young ones
  std::uint64_t file_bytes = 0;
};

// The client of a snapshot. Both functions return false if it wants no more data.
struct HeapClient {
  std::function<bool(std::string_view bytes)> take;
  std::function<bool()> waits;
};

// One finding of doctor: the subject, the finding, the remedy.
struct Finding {
  enum class Level { kOk, kWarning, kProblem };
  Level level = Level::kOk;
  std::string subject;  // "kernel", "privileges", "runtime", "capture probe", ...
  std::string detail;
  std::string remedy;  // empty when ok
};

// The daemon's own numbers.
struct SelfStats {
  double cpu_seconds = 0;
  double cpu_max = 0;  // in processors; 0: no limit
  std::uint64_t resident_bytes = 0;
  std::uint64_t events = 0;         // ring buffer records consumed, all targets
  std::uint64_t history_bytes = 0;  // memory taken by the histories of all targets
  // Memory for all other data about targets: used and allowed.
  std::uint64_t target_bytes = 0, target_bytes_max = 0;
  // Memory servers of exited targets that a file system still holds.
  std::uint64_t abandoned_memory_servers = 0;
  std::uint64_t state_bytes = 0;         // size of the files that store the targets
  std::uint64_t state_write_errors = 0;  // failed attempts to store a target
  // Time since the control thread last checked for work. It checks continuously.
  double control_silent_seconds = 0;
};

}  // namespace memprofd
