// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/extent_layer.h"

#include <algorithm>

namespace memprofd {
namespace {

// The first extent that ends after the address.
std::vector<Extent>::const_iterator first_behind(const std::vector<Extent>& extents,
                                                 std::uint64_t address) {
  return std::ranges::upper_bound(extents, address, {}, &Extent::end);
}

}  // namespace

bool ExtentLayer::add(const Extent& extent) {
  if (extent.begin >= extent.end) return true;
  if (!extents_.empty()) {
    Extent& last = extents_.back();
    if (last.end == extent.begin && last.kind == extent.kind && last.name == extent.name) {
      last.end = extent.end;
      return true;
    }
  }
  if (extents_.size() >= kMaxExtents) return false;
  extents_.push_back(extent);
  return true;
}

void ExtentLayer::seal() {
  std::ranges::stable_sort(extents_, {}, &Extent::begin);
  std::uint64_t end = 0;
  std::size_t kept = 0;
  for (Extent extent : extents_) {
    extent.begin = std::max(extent.begin, end);
    if (extent.begin >= extent.end) continue;
    end = extent.end;
    extents_[kept++] = extent;
  }
  extents_.resize(kept);
}

const Extent* ExtentLayer::find(std::uint64_t address) const {
  const auto found = first_behind(extents_, address);
  return found != extents_.end() && found->begin <= address ? &*found : nullptr;
}

void cut_by_layers(std::span<const ExtentLayer* const> layers, std::uint64_t begin,
                   std::uint64_t end, const std::function<void(const Extent&)>& take) {
  if (begin >= end) return;
  if (layers.empty()) return take({.begin = begin, .end = end});
  const auto below = layers.first(layers.size() - 1);
  const std::vector<Extent>& extents = layers.back()->extents();
  for (auto at = first_behind(extents, begin); at != extents.end() && at->begin < end; ++at) {
    const std::uint64_t from = std::max(begin, at->begin), to = std::min(end, at->end);
    cut_by_layers(below, begin, from, take);
    take({.begin = from, .end = to, .kind = at->kind, .name = at->name});
    begin = to;
  }
  cut_by_layers(below, begin, end, take);
}

}  // namespace memprofd
