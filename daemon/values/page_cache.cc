// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/page_cache.h"

#include <algorithm>
#include <utility>

namespace memprofd {

bool PageCache::set_mappings(std::span<const Mapping> mappings, const AddressRange& image) {
  const std::vector<AddressRange> before = std::exchange(ranges_, {});
  for (const Mapping& mapping : mappings) {
    if (!mapping.readable || (mapping.inode != 0 && !image.contains(mapping.begin))) continue;
    if (!ranges_.empty() && ranges_.back().end == mapping.begin) {
      ranges_.back().end = mapping.end;
    } else {
      ranges_.push_back({mapping.begin, mapping.end});
    }
  }
  return ranges_ != before;
}

bool PageCache::may_read(std::uint64_t page) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), page,
      [](std::uint64_t address, const AddressRange& range) { return address < range.begin; });
  return after != ranges_.begin() && (after - 1)->contains(page);
}

const PageCache::Page* PageCache::page_at(std::uint64_t begin) const {
  const auto known = pages_.find(begin);
  if (known != pages_.end()) return known->second.get();
  if (!may_read(begin)) {
    missed_ = true;
    return nullptr;
  }
  if (full()) return nullptr;
  auto page = std::make_unique<Page>();
  if (!memory_.read(begin, *page).ok()) page.reset();
  return (pages_[begin] = std::move(page)).get();
}

absl::Status PageCache::read(std::uint64_t address, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::uint64_t inside = address % kPageBytes;
    const Page* const page = page_at(address - inside);
    if (page == nullptr) return absl::OutOfRangeError("not mapped");
    const std::size_t bytes = std::min<std::size_t>(out.size(), kPageBytes - inside);
    std::copy_n(page->begin() + static_cast<std::ptrdiff_t>(inside), bytes, out.begin());
    out = out.subspan(bytes);
    address += bytes;
    if (address == 0) return absl::OutOfRangeError("not mapped");
  }
  return absl::OkStatus();
}

}  // namespace memprofd
