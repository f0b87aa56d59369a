// SPDX-License-Identifier: Apache-2.0
// The kernel's own structures: whether their types are known, the offsets of fields that probes
// read, and the thread pointers (fs bases) of a process, which is not stopped for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct bpf_program;

namespace memprofd {

// True if the kernel has type information about its structures (BTF). Without it no program that
// reads them can be loaded.
bool has_kernel_types(const std::string& sys_root = "/sys");

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

// program: thread_pointers of bpf/thread_pointers.bpf.h, loaded. Returns one entry for each thread
// that exists now, at most 4096; none if the kernel cannot choose a process (Linux before 6.1).
std::vector<std::uint64_t> read_thread_pointers(const bpf_program* program, int pid);

}  // namespace memprofd
