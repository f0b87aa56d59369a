// SPDX-License-Identifier: Apache-2.0
// Checks whether a program's own memory shows probes. The kernel removes a breakpoint some ten
// milliseconds after its link was closed, and needs at least as long again to release the link.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/discover/memory_reader.h"

namespace memprofd {

// True when the code at these addresses, one at least, can be read and none of it is a probe:
// nobody's, also no other tool's. On x86-64 a probe is `int3`, or a call where the kernel has
// replaced a long nop (Linux 6.18); what begins with a call by itself is taken for one. On other
// processors a probe is not known from other code, and the answer is false.
bool shows_no_probe(const MemoryReader& memory, std::span<const std::uint64_t> addresses);

}  // namespace memprofd
