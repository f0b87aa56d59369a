// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/own_process.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {
namespace {

int yama_scope() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope;
}

// The reason why the kernel denies access to a process, and the remedy.
absl::Status not_allowed(int pid, const OwnAccess& access) {
  const auto status = ProcFs().status(pid);
  if (!status.ok()) return status.status();
  const std::string what = absl::StrCat("not allowed to ", access.what, " pid ", pid, ": ");
  if (status->uids[1] != ::geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(what, "it runs as user ", status->uids[1],
                     "; run memprofctl as that user, or memprofd as root"));
  }
  if (const int scope = yama_scope(); scope != 0) {
    return absl::PermissionDeniedError(absl::StrCat(what, "kernel.yama.ptrace_scope is ", scope,
                                                    "; set it to 0 (sysctl), or ",
                                                    access.otherwise));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(what, "it is setuid, has changed its user, or is in another container; ",
                   access.otherwise, ", or run memprofd as root"));
}

}  // namespace

absl::StatusOr<Target> discover_own_process(int pid, const OwnAccess& access) {
  absl::StatusOr<Target> target = discover_target(pid);
  if (!target.ok() && ProcFs().status(pid).value_or(ProcessStatus{.state = 'X'}).has_ended()) {
    return absl::NotFoundError(absl::StrCat("no process has the pid ", pid));
  }
  if (absl::IsPermissionDenied(target.status())) return not_allowed(pid, access);
  return target;
}

}  // namespace memprofd
