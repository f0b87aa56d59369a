// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/page_cache.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "daemon/discover/target_memory.h"

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

void PageCache::forget() {
  for (auto& [begin, page] : pages_) {
    if (page != nullptr) spare_.push_back(std::move(page));
  }
  pages_.clear();
  noted_.clear();
  recent_ = {};
  missed_ = false;
  was_late_ = false;
}

std::unique_ptr<PageCache::Page> PageCache::new_page() const {
  if (spare_.empty()) return std::make_unique<Page>();
  std::unique_ptr<Page> page = std::move(spare_.back());
  spare_.pop_back();
  return page;
}

bool PageCache::may_read(std::uint64_t page) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), page,
      [](std::uint64_t address, const AddressRange& range) { return address < range.begin; });
  return after != ranges_.begin() && (after - 1)->contains(page);
}

const PageCache::Page* PageCache::page_at(std::uint64_t begin) const {
  Recent& recent = recent_[begin / kPageBytes % recent_.size()];
  if (recent.begin == begin) return recent.page;
  const auto known = pages_.find(begin);
  if (known != pages_.end()) {
    recent = {begin, known->second.get()};
    return recent.page;
  }
  if (!may_read(begin)) {
    missed_ = true;
    return nullptr;
  }
  if (full()) return nullptr;
  if (notes_) {
    noted_.push_back(begin);
    return nullptr;
  }
  auto page = new_page();
  const absl::Status status = memory_.read(begin, *page);
  was_late_ |= !status.ok() && !absl::IsOutOfRange(status);
  if (!status.ok()) page.reset();
  return (pages_[begin] = std::move(page)).get();
}

void PageCache::fetch(std::span<const std::uint64_t> addresses) const {
  std::vector<std::uint64_t> wanted;
  absl::flat_hash_set<std::uint64_t> seen;
  for (const std::uint64_t address : addresses) {
    const std::uint64_t page = address - address % kPageBytes;
    const bool is_last = !wanted.empty() && wanted.back() == page;
    if (is_last || pages_.size() + wanted.size() >= kMaxPages || !seen.insert(page).second)
      continue;
    if (!pages_.contains(page) && may_read(page)) wanted.push_back(page);
  }
  if (wanted.empty()) return;
  std::vector<std::unique_ptr<Page>> pages;
  std::vector<MemoryPiece> pieces;
  for (const std::uint64_t page : wanted) {
    pages.push_back(new_page());
    pieces.push_back({page, *pages.back()});
  }
  const auto read = read_pieces(memory_, pieces);
  // What is behind one that is not there is read when it is wanted.
  for (std::size_t i = 0; read.ok() && i < *read; ++i) pages_[wanted[i]] = std::move(pages[i]);
}

void PageCache::fetch_noted() {
  const std::vector<std::uint64_t> wanted = std::exchange(noted_, {});
  fetch(wanted);
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
