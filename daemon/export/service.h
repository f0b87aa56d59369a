// What the servers ask of the rest of the daemon. Implemented by Daemon (and by
// a fake in unit tests); every call may come from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/store/snapshot.h"

namespace memprofd {

enum class AttachMode {
  kDefault,  // the daemon's
  kAuto,     // the agent when it is possible, else observe mode
  kAgent,    // or nothing
  kObserve,
};

struct AttachRequest {
  int pid = 0;
  double sampling_rate = 0;  // 0: the daemon's default
  bool no_inject = false;
  AttachMode mode = AttachMode::kDefault;
  bool follow_forks = false;  // its children become targets too
  double max_overhead = 0;    // share of the target's CPU; 0: the daemon's default
};

// One finding of doctor: what was looked at, what was found, what to do.
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
  std::uint64_t resident_bytes = 0;
  std::uint64_t events = 0;         // ring buffer records consumed, all targets
  std::uint64_t history_bytes = 0;  // memory taken by the histories of all targets
};

class ProfilerService : public SnapshotSource {
 public:
  // Returns when sampling runs or, for an idle target, when it waits for it.
  virtual absl::StatusOr<TargetInfo> attach(const AttachRequest& request) = 0;
  virtual absl::Status detach(int pid) = 0;
  // rate in samples per word, 0 < rate <= 1.
  virtual absl::Status set_rate(int pid, double rate) = 0;
  // pid 0: kernel and privileges only.
  virtual std::vector<Finding> diagnose(int pid) = 0;
  virtual SelfStats self_stats() = 0;
};

}  // namespace memprofd
