// SPDX-License-Identifier: Apache-2.0
// Classified ranges of an address space, in layers: an upper layer overrides those below it, and
// leaves bytes that it does not cover to them.
//
//     OCaml heap, minor heap, tables, caches   |      |####|        |##|
//     malloc's chunks                          |  |##########|  |######|
//     mappings                                 |################|########|
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "daemon/rss/rss_class.h"

namespace memprofd {

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  RssClass kind = RssClass::kOther;
  std::uint32_t name = 0;  // number in a table of the layer's owner

  friend bool operator==(const Extent&, const Extent&) = default;
};

// Order of use: add everything, seal, then query.
class ExtentLayer {
 public:
  // Maximum number of extents after merging neighbours of the same kind.
  static constexpr std::size_t kMaxExtents = 1u << 22;

  // Ignores an empty extent; returns false if the layer is full.
  bool add(const Extent& extent);
  // Sorts the extents. If two overlap, the first one gets the common part.
  void seal();

  const std::vector<Extent>& extents() const { return extents_; }
  // The extent that contains the address, or null.
  const Extent* find(std::uint64_t address) const;

 private:
  std::vector<Extent> extents_;
};

// Splits [begin, end) at the borders of extents and reports each piece once, in the order of
// addresses. layers: from the lowest to the uppermost; pieces outside of all layers are kOther.
void cut_by_layers(std::span<const ExtentLayer* const> layers, std::uint64_t begin,
                   std::uint64_t end, const std::function<void(const Extent&)>& take);

}  // namespace memprofd
