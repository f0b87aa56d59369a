// SPDX-License-Identifier: Apache-2.0
// Ensures one memprofd per target, with a kernel name that disappears with its holder.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

namespace memprofd {

// Holds the abstract Unix socket "memprofd/PID/START" until destroyed or until this process dies,
// however it dies. kAlreadyExists names the holder's pid. A process of another user that has the
// name is no holder: then nothing is held, and the agent's owner (agent_owner.h) reveals another
// memprofd, as it does if the two have different network namespaces.
class TargetLock {
 public:
  static absl::StatusOr<TargetLock> acquire(int pid, std::uint64_t start_time_ticks);
  void release() { socket_.reset(); }

 private:
  explicit TargetLock(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

}  // namespace memprofd
