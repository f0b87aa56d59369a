// SPDX-License-Identifier: Apache-2.0
// Reads pages of a file into the page cache. A kernel that puts a breakpoint into a page reads it
// by itself if it is not there, and Linux 6.18 does so on ext4 without the lock that it asks for,
// which it says by a warning with a stack (and ends there where panic_on_warn is set).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace memprofd {

inline constexpr std::uint64_t kCodePageBytes = 4096;

// Those of these offsets. What cannot be read is left to who needs it.
void read_in(int file, std::span<const std::uint64_t> offsets);
// All of a regular file.
void read_in_whole(const std::string& path);

}  // namespace memprofd
