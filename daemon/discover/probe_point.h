// SPDX-License-Identifier: Apache-2.0
// Chooses the place of a uprobe in a function, and predicts the cost of a hit.
//
// The kernel emulates a few instructions under a uprobe and single-steps all others, which costs
// ten times as much. The arguments must still be in their registers, so the choice is only between
// the entry and the instruction after an endbr64 there, or the jump at a function's end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace memprofd {

struct ProbePoint {
  std::uint64_t file_offset = 0;  // in the program's file
  std::uint64_t address = 0;      // in the process
  bool cheap = false;             // about 1 us a hit; otherwise 10 us and more
  std::string instruction;        // "push", "sub", ... for people
};

// Chooses the jump that ends a function without branches, such as OCaml 5's caml_get_callstack: the
// callee's arguments are in their registers there. nullopt if the code is not understood. code: the
// function's first bytes, read from the file, where no breakpoint can be; 64 are enough here, and
// 16 for choose_probe_point(). file_offset and address are those of code[0].
std::optional<ProbePoint> choose_tail_jump(std::span<const std::byte> code,
                                           std::uint64_t file_offset, std::uint64_t address);

ProbePoint choose_probe_point(std::span<const std::byte> code, std::uint64_t file_offset,
                              std::uint64_t address);

}  // namespace memprofd
