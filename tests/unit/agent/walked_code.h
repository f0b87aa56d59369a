// SPDX-License-Identifier: Apache-2.0
// A program's functions and their frame descriptors, for tests of the agent's walks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent-lib/walk/frame_table.h"

namespace memprofd::testing {

inline constexpr std::uint64_t kBottom = 0x400000;
inline constexpr std::uint64_t kFirstCode = 0x400100;
inline constexpr std::uint64_t kFunctions = 40;

// Return address of a function; its frames have 2 words or more.
inline std::uint64_t code(std::uint64_t function) { return kFirstCode + 24 * function; }
inline std::uint16_t frame_bytes(std::uint64_t function) { return 16 + 8 * (function % 7); }

class Table {
 public:
  explicit Table(std::uint64_t functions = kFunctions) : slots_(256) {
    add(kBottom, MEMPROF_CHUNK_BOTTOM);
    for (std::uint64_t f = 0; f < functions; ++f) add(code(f), frame_bytes(f) | f % 4);
  }
  void add(std::uint64_t return_address, std::uint16_t frame_size) {
    auto at = return_address >> 3;
    while (slots_[at % slots_.size()] != nullptr) ++at;
    owned_.push_back(std::make_unique<memprof_descriptor>());
    owned_.back()->return_address = return_address;
    owned_.back()->frame_size = frame_size;
    slots_[at % slots_.size()] = owned_.back().get();
  }
  memprof_frame_table get() const { return {slots_.data(), slots_.size() - 1, nullptr}; }
  void move() { slots_ = std::vector<const memprof_descriptor*>(slots_); }

 private:
  std::vector<const memprof_descriptor*> slots_;
  std::vector<std::unique_ptr<memprof_descriptor>> owned_;
};

}  // namespace memprofd::testing
