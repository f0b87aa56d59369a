// SPDX-License-Identifier: Apache-2.0
// Checks whether a thread's stack has room for a few more calls. It runs while the thread is
// stopped, so it does not read all mappings of the process.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/discover/proc_fs.h"
#include "daemon/discover/target.h"

namespace memprofd {

// Address range of the main thread's stack; empty if unknown.
AddressRange find_main_stack(const std::vector<Mapping>& maps);

// True if at least `bytes` are free below stack_pointer: in pages that are present or, on the main
// thread's stack, which grows, within its resource limit. False if unknown.
bool has_stack_room(int pid, const AddressRange& main_stack, std::uint64_t stack_pointer,
                    std::uint64_t bytes);

}  // namespace memprofd
