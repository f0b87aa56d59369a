// SPDX-License-Identifier: Apache-2.0
// Native memory that all custom blocks of one identifier hold.
#pragma once

#include <cstdint>
#include <string>

namespace memprofd {

// Bytes are those that malloc returned, without its own headers.
struct NativeOwner {
  std::string identifier;    // "_bigarr02"; empty: unreadable
  std::uint64_t blocks = 0;  // blocks that hold native memory
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t resident = 0;  // resident part of bytes
};

}  // namespace memprofd
