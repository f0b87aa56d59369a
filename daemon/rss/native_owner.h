// SPDX-License-Identifier: Apache-2.0
// Native memory that all custom blocks of one identifier hold.
#pragma once

#include <cstdint>
#include <string>

namespace memprofd {

// Bytes are those that malloc gave, without its own heads.
struct NativeOwner {
  std::string identifier;    // "_bigarr02"; empty: has none that can be read
  std::uint64_t blocks = 0;  // those that hold something
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t resident = 0;  // of these
};

}  // namespace memprofd
