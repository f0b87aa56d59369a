// SPDX-License-Identifier: Apache-2.0
// Small random heaps, and their reachable blocks by definition.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "tests/kit/image_builder.h"

namespace memprofd {

inline HeapImage random_image(std::mt19937& random) {
  ImageBuilder builder;
  const std::uint32_t blocks = 1 + random() % 12;
  for (std::uint32_t i = 0; i < blocks; ++i) builder.block(3 + random() % 3, random() % 2);
  for (std::uint32_t i = random() % (2 * blocks + 1); i > 0; --i) {
    builder.point(static_cast<std::uint32_t>(random() % blocks), random() % 3,
                  static_cast<std::uint32_t>(random() % blocks));
  }
  for (std::uint32_t i = random() % 6; i > 0; --i) {
    RootName name{.kind = random() % 2 == 0 ? RootKind::kGlobal : RootKind::kStack};
    name.owner = random() % 2 == 0 ? "A" : "B";
    if (name.kind == RootKind::kGlobal) name.field = random() % 2;
    builder.root(name, static_cast<std::uint32_t>(random() % blocks));
  }
  return builder.build();
}

// Reachability by block, without one block and without some roots.
inline std::vector<bool> reached(const HeapImage& image, std::uint32_t without,
                                 const std::function<bool(const RootName&)>& has_root) {
  std::vector<bool> seen(image.blocks());
  std::vector<std::uint32_t> todo;
  const auto reach = [&](std::uint32_t block) {
    if (block == without || seen[block]) return;
    seen[block] = true;
    todo.push_back(block);
  };
  for (const ImageRoot& root : image.roots) {
    if (has_root(image.root_names[root.name])) reach(root.block);
  }
  while (!todo.empty()) {
    const std::uint32_t block = todo.back();
    todo.pop_back();
    for (const std::uint32_t held : image.edges.of(block)) reach(held);
  }
  return seen;
}
inline std::vector<bool> reached(const HeapImage& image,
                                 std::uint32_t without = HeapImage::kNoBlock) {
  return reached(image, without, [](const RootName&) { return true; });
}

}  // namespace memprofd
