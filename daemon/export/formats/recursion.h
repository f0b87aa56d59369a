// SPDX-License-Identifier: Apache-2.0
// Folds recursion in callstacks: frames that repeat, alone or as a cycle of several functions,
// become one frame per function with the number of frames that it stands for.
//
//   main f f f g          main f×3 g
//   main f g f g h        main f×2 g×2 h
//   main f f g f g h      main f×3 g×2 h
//
// Only immediate repeats are folded: main f g f k, in which g calls f once more for another reason,
// keeps every frame. Line numbers do not matter; a folded frame has those of its innermost repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace memprofd {

enum class Recursion : std::uint8_t { kFull, kFolded };

struct FoldedFrame {
  std::uint32_t location = 0;  // the innermost location that it stands for
  std::uint32_t frames = 1;    // number of frames that it stands for

  friend bool operator==(const FoldedFrame&, const FoldedFrame&) = default;
};

// Longer cycles are not folded: the time is proportional to this limit.
inline constexpr std::size_t kLongestCycle = 32;

// from_root: locations, outermost first. function_of: the number of each location's function. The
// sum of frames is the number of locations.
std::vector<FoldedFrame> fold_recursion(std::span<const std::uint32_t> from_root,
                                        std::span<const std::uint32_t> function_of);
// The same form, without folding.
std::vector<FoldedFrame> unfolded(std::span<const std::uint32_t> from_root);

}  // namespace memprofd
