// SPDX-License-Identifier: Apache-2.0
// AgentAttachment: grants heap copies, and keeps the target attached during them.
#include <fmt/core.h>

#include <string_view>
#include <thread>

#include "daemon/attach/agent_attachment.h"

namespace memprofd {

absl::StatusOr<std::shared_ptr<const CopyLease>> AgentAttachment::copy_lease() {
  const auto refused = [this](std::string_view why) {
    return absl::FailedPreconditionError(
        fmt::format("no snapshot can be taken of pid {}: {}", target_.pid, why));
  };
  if (!plan_.may_inject) {
    return refused(
        "none of its threads may be borrowed (--no-inject, a seccomp filter, a shadow stack); "
        "attach without that restriction");
  }
  if (!control_ || !end_waking())
    return refused("its agent is not ready yet; try again in a moment");
  if (copying()) {
    return absl::AlreadyExistsError(fmt::format(
        "no snapshot can be taken of pid {}: another one is being taken; wait for its end",
        target_.pid));
  }
  const auto lease = std::make_shared<CopyLease>(
      target_, kernel_.get(), plan_.file ? plan_.file->elf->descriptor() : plan_.agent.file,
      agent_.control_address, plan_.libc, paused_for_copies_, copy_pause_ratio_);
  lease_ = lease;
  return lease;
}

void AgentAttachment::give_up_copy() {
  if (const auto lease = lease_.lock()) lease->given_up = true;
}

// The wait is short: a copy that was given up ends soon.
void AgentAttachment::wait_for_copy() {
  give_up_copy();
  while (copying()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace memprofd
