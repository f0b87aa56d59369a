// SPDX-License-Identifier: Apache-2.0
// The user besides root who may inspect a process, by the kernel's rule (ptrace_may_access): real,
// effective and saved user and group all equal that user's, the process has no capabilities that
// the user lacks, and it is dumpable, which a process that has changed its user is not. All
// requests about a process use this rule.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/model/requested_process.h"

namespace memprofd {

struct OwnedProcess {
  std::uint64_t start_time_ticks = 0;
  std::optional<ProcessUser> owner;  // nullopt: only root
  bool has_ended = false;            // or is ending: it has released its memory
};

// Both results belong to one process, even if the pid is reused meanwhile. Returns the errors of
// ProcFs. If a caller opened the memory of the process before and it still responds afterwards
// (TargetMemory::check()), the kernel would have let the owner open it.
absl::StatusOr<OwnedProcess> find_owner(const ProcFs& proc, int pid);

// Returns the requested process if the pid still means it and it belongs to the user
// (check_is_meant()). kNotFound: it has ended.
absl::StatusOr<OwnedProcess> identify_process(const ProcFs& proc, const RequestedProcess& asked);
absl::Status check_is_meant_now(const ProcFs& proc, const RequestedProcess& asked);

}  // namespace memprofd
