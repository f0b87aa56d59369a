// SPDX-License-Identifier: Apache-2.0
// Reads pages of a file into the page cache. A kernel that places a breakpoint in a page reads a
// missing page itself; on ext4 Linux 6.18 does so without the lock that it requires, and prints a
// warning with a stack (which ends the machine if panic_on_warn is set).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace memprofd {

inline constexpr std::uint64_t kCodePageBytes = 4096;

// Reads the pages at these offsets. Ignores errors: later users of the pages report them.
void read_in(int file, std::span<const std::uint64_t> offsets);
// Reads a whole regular file.
void read_in_whole(const std::string& path);

}  // namespace memprofd
