// SPDX-License-Identifier: Apache-2.0
// Checks whether a program's own memory shows probes. The kernel removes a breakpoint some ten
// milliseconds after its link was closed, and needs at least as long again to release the link.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

// True if the code at these addresses, at least one, can be read and none of it is a probe, of
// memprofd or any other tool. On x86-64 a probe is `int3`, or a call where the kernel has replaced
// a long nop (Linux 6.18); code that begins with a call of its own counts as one. On other
// processors a probe cannot be distinguished from code, and the answer is false.
bool shows_no_probe(const MemoryReader& memory, std::span<const std::uint64_t> addresses);

}  // namespace memprofd
