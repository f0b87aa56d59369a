// SPDX-License-Identifier: Apache-2.0
// Watches the place where a target's runtime runs callbacks: reports threads that pass, and sends
// the one signal that stops a chosen thread there (bpf/safe_point.h has the protocol). Watching
// touches nothing in the process but a probe, and sends nothing. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bpf/safe_point.h"
#include "daemon/attach/kernel/uprobe_link.h"

namespace memprofd {

class SafePoint {
 public:
  // Loads the BPF program and places the probe. Returns the errors of KernelSide::load.
  static absl::StatusOr<std::unique_ptr<SafePoint>> attach(int pid, const ProbeSite& site);
  ~SafePoint();  // closes, and removes the probe
  SafePoint(const SafePoint&) = delete;
  SafePoint& operator=(const SafePoint&) = delete;

  // The next thread that passes reports itself, except skipped ones.
  void watch();
  // Returns the thread that has reported itself; waits for one until `patience` is over or
  // cancel_fd is readable.
  std::optional<memprof_safe_point_hit> wait_hit(int cancel_fd, std::chrono::milliseconds patience);
  // Call this once per watch(): sends the signal to the thread of the hit, immediately if it still
  // waits, or when it passes again before the lease ends. renew() extends the lease.
  void open(const memprof_safe_point_hit& hit, int signal, std::chrono::milliseconds lease);
  void renew(std::chrono::milliseconds lease);
  // From now on no signal is sent. Returns true if one was sent since open().
  bool close();

  // Ignores the thread until skip_none(). If there are too many, the one skipped longest is
  // dropped.
  void skip(const memprof_safe_point_hit& hit);
  void skip_none();

 private:
  struct Parts;
  explicit SafePoint(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace memprofd
