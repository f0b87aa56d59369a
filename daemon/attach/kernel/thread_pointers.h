// SPDX-License-Identifier: Apache-2.0
// The thread pointers (fs bases) of a process, without stopping it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct bpf_program;

namespace memprofd {

// True if the kernel has type information about its structures (BTF). Without it no program that
// reads them can be loaded.
bool has_kernel_types(const std::string& sys_root = "/sys");

// program: thread_pointers of bpf/thread_pointers.bpf.h, loaded. Returns one entry for each thread
// that exists now, at most 4096; none if the kernel cannot choose a process (Linux before 6.1).
std::vector<std::uint64_t> read_thread_pointers(const bpf_program* program, int pid);

}  // namespace memprofd
