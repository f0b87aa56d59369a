// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/native_heap_control.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

Filters filters_of(const ProcessStatus& status) { return {status.seccomp, status.seccomp_filters}; }

absl::StatusOr<memprof_c_heap> NativeHeapControl::status() const {
  memprof_c_heap block{};
  RETURN_IF_ERROR(memory_->read_value(address_, block));
  if (block.magic == MEMPROF_NATIVE_HEAP_MAGIC && block.abi_version == MEMPROF_NATIVE_HEAP_ABI &&
      block.bytes == sizeof block) {
    return block;
  }
  return absl::DataLossError(
      absl::StrCat("pid ", pid_, " holds an agent of another build (native heap: interface ",
                   block.abi_version, ", this memprofd needs ", MEMPROF_NATIVE_HEAP_ABI, ")"));
}

absl::Status NativeHeapControl::request(std::uint64_t interval, std::uint32_t generation) const {
  inspect_filters();
  if (interval == 0) inspect_filters();  // the last chance: the agent is about to stop following
  RETURN_IF_ERROR(
      memory_->write_value(address_ + offsetof(memprof_c_heap, note_place), note_place_));
  RETURN_IF_ERROR(
      memory_->write_value(address_ + offsetof(memprof_c_heap, requested_interval), interval));
  return memory_->write_value(address_ + offsetof(memprof_c_heap, requested_generation),
                              generation);
}

void NativeHeapControl::inspect_filters() const {
  const auto now = ProcFs().status(pid_);
  const auto block = status();
  if (!now.ok() || !block.ok() || block->syscall_filter == MEMPROF_NATIVE_HEAP_FILTERED) return;
  std::uint32_t filter = MEMPROF_NATIVE_HEAP_FILTERED;
  if (filters_of(*now) == filters_) {
    if (block->syscall_filter == MEMPROF_NATIVE_HEAP_NOT_FILTERED) return;
    filter = block->syscall_filter == MEMPROF_NATIVE_HEAP_MAYBE_FILTERED
                 ? MEMPROF_NATIVE_HEAP_UNLIKELY_FILTERED
                 : MEMPROF_NATIVE_HEAP_NOT_FILTERED;
  }
  (void)memory_->write_value(address_ + offsetof(memprof_c_heap, syscall_filter), filter);
}

std::string what_is_not_followed(const memprof_c_heap& status) {
  if (status.syscall_filter == MEMPROF_NATIVE_HEAP_FILTERED && status.slots != 0) {
    return "the native heap is no longer followed: the program has entered another seccomp filter; "
           "its malloc calls keep one extra jump until it ends";
  }
  switch (status.state) {
    case MEMPROF_NATIVE_HEAP_NO_SLOTS:
      return "the native heap is not followed: malloc is linked statically, so its calls cannot be "
             "seen";
    case MEMPROF_NATIVE_HEAP_UNSUPPORTED:
      return "the native heap is not followed: the program has an unknown malloc";
    case MEMPROF_NATIVE_HEAP_LINKER_LOCKED:
      return "the native heap is not followed: the process was forked while another thread held "
             "the dynamic linker's lock; a later child may be followed";
    case MEMPROF_NATIVE_HEAP_FOLLOWING:
      if (status.slots_left == 0) return "";
      return absl::StrCat("the native heap is not followed where ", status.slots_left, " of ",
                          status.slots_left + status.slots,
                          " places call another malloc or free, or cannot be changed");
    default:
      return "";
  }
}

}  // namespace memprofd
