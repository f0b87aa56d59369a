// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/recursion.h"

#include <algorithm>

namespace memprofd {
namespace {

// True if the last n frames repeat the n before them.
bool ends_in_repeat(const std::vector<FoldedFrame>& stack, std::size_t n,
                    std::span<const std::uint32_t> function_of) {
  const auto function = [&](std::size_t from_end) {
    return function_of[stack[stack.size() - from_end].location];
  };
  for (std::size_t i = 1; i <= n; ++i) {
    if (function(i) != function(i + n)) return false;
  }
  return true;
}

void fold_last(std::vector<FoldedFrame>& stack, std::size_t n) {
  const std::size_t begin = stack.size() - 2 * n;
  for (std::size_t i = begin; i < begin + n; ++i) {
    stack[i].location = stack[i + n].location;
    stack[i].frames += stack[i + n].frames;
  }
  stack.resize(stack.size() - n);
}

}  // namespace

// Before a frame is added, no end of the stack repeats what precedes it. So at most one does
// afterwards.
std::vector<FoldedFrame> fold_recursion(std::span<const std::uint32_t> from_root,
                                        std::span<const std::uint32_t> function_of) {
  std::vector<FoldedFrame> stack;
  for (const std::uint32_t location : from_root) {
    stack.push_back({.location = location});
    const std::size_t longest = std::min(kLongestCycle, stack.size() / 2);
    for (std::size_t n = 1; n <= longest; ++n) {
      if (!ends_in_repeat(stack, n, function_of)) continue;
      fold_last(stack, n);
      break;
    }
  }
  return stack;
}

std::vector<FoldedFrame> unfolded(std::span<const std::uint32_t> from_root) {
  std::vector<FoldedFrame> stack;
  stack.reserve(from_root.size());
  for (const std::uint32_t location : from_root) stack.push_back({.location = location});
  return stack;
}

}  // namespace memprofd
