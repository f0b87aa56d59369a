// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/native_heap_by_agent.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/runtime/runtime_abi.h"
#include "daemon/util/estimate.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

double NativeHeapByAgent::rate() const {
  return requested() ? kBytesPerWord / static_cast<double>(interval_) : 0;
}

std::uint64_t NativeHeapByAgent::note_place() const {
  if (target_->abi.domains) return target_->abi.c_stack;
  return target_->caml_state_address + target_->abi.bottom_of_stack;
}

void NativeHeapByAgent::set_agent(const AgentLocation& agent, bool borrowed) {
  if (!requested() || control_) return;
  why_not_ = std::string(find(agent, borrowed).message());
}

absl::Status NativeHeapByAgent::find(const AgentLocation& agent, bool borrowed) {
  RETURN_IF_ERROR(check_capability(target_->abi, Capability::kNativeHeap));
  if (agent.native_heap_address == 0 || agent.native_alloc_offset == 0) {
    return absl::FailedPreconditionError(
        "the program has the agent of an earlier memprofd; restart the program");
  }
  const auto process = ProcFs().status(target_->pid);
  if (!process.ok()) return absl::OkStatus();  // it has ended
  // Filters are checked when a thread is borrowed. Without a borrowed thread it is unknown how a
  // filter treats calls that the program has never made.
  if (!borrowed && process->seccomp != 0) {
    return absl::FailedPreconditionError(
        "the program runs under a seccomp filter, which may forbid the agent's system calls; "
        "attach without --no-inject, so that memprofd can check it");
  }
  const NativeHeapControl control(target_->pid, *target_->memory, agent.native_heap_address,
                                  note_place(), filters_of(*process));
  ASSIGN_OR_RETURN(const auto status, control.status());
  generation_ = std::max(status.generation, status.requested_generation) + 1;
  control_ = control;
  return absl::OkStatus();
}

absl::Status NativeHeapByAgent::attach_probes(Probes& probes, const SharedFd& file,
                                              const AgentLocation& at) const {
  if (!requested() || at.native_alloc_offset == 0) return absl::OkStatus();
  RETURN_IF_ERROR(
      probes.attach(Probe::kNativeFree, {.file = file, .offset = at.native_free_offset}));
  return probes.attach(Probe::kNativeAlloc, {.file = file, .offset = at.native_alloc_offset});
}

absl::Status NativeHeapByAgent::request() const {
  return control_ ? control_->request(interval_, generation_) : absl::OkStatus();
}

void NativeHeapByAgent::request_stop() const {
  if (control_) (void)control_->request(0, generation_);
}

bool NativeHeapByAgent::stopped() const {
  if (!control_) return true;
  const auto status = control_->status();
  if (!status.ok() || status->syscall_filter != 0) return true;
  return status->slots == 0 && status->state != MEMPROF_NATIVE_HEAP_FOLLOWING;
}

}  // namespace memprofd
