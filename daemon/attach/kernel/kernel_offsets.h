// SPDX-License-Identifier: Apache-2.0
// Offsets of fields of the kernel's own structures that probes read.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace memprofd {

// Offsets in bytes from the start of a structure.
struct KernelOffsets {
  std::uint32_t thread_pointer = 0;      // struct task_struct: the thread pointer (fs base)
  std::uint32_t task_memory = 0;         // struct task_struct: its memory, struct mm_struct
  std::uint32_t memory_probe_page = 0;   // struct mm_struct: the page of its probes, if any
  std::uint32_t probe_page_address = 0;  // struct xol_area: where the program has that page
  std::uint32_t task_probes = 0;         // struct task_struct: data of probes about the thread
  std::uint32_t probes_awaited = 0;      // struct uprobe_task: the newest return that is awaited
  std::uint32_t awaited_next = 0;        // struct return_instance: the one before
  std::uint32_t awaited_slot = 0;        // struct return_instance: location of its address
};

// kUnimplemented: the kernel has no type information.
absl::StatusOr<KernelOffsets> kernel_offsets();

}  // namespace memprofd
