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
  slice_of_.clear();
  slices_.clear();
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
  // Pages after a missing one are read on demand.
  for (std::size_t i = 0; read.ok() && i < *read; ++i) pages_[wanted[i]] = std::move(pages[i]);
}

void PageCache::peek(std::span<const AddressRange> ranges) const {
  add_slices(ranges);
  read_slices();
}

void PageCache::add_slices(std::span<const AddressRange> ranges) const {
  slice_of_.reserve(std::min(ranges.size(), kMaxPages));
  for (const AddressRange& range : ranges) {
    for (std::uint64_t begin = range.begin; begin < range.end;) {
      const std::uint64_t page = begin - begin % kPageBytes;
      const std::uint64_t end = std::min(range.end - page, kPageBytes) + page;
      add_slice(page, begin, end);
      begin = end;
    }
  }
}

void PageCache::add_slice(std::uint64_t page, std::uint64_t begin, std::uint64_t end) const {
  const auto [known, is_new] = slice_of_.try_emplace(page, slices_.size());
  if (is_new && slices_.size() < kMaxPages && may_read(page)) {
    slices_.push_back({begin, end});
  } else if (is_new) {
    known->second = kNoSlice;
  } else if (known->second != kNoSlice) {
    Slice& slice = slices_[known->second];
    slice.begin = std::min(slice.begin, begin);
    slice.end = std::max(slice.end, end);
  }
}

void PageCache::make_room_for_slices(std::size_t times) const {
  std::size_t bytes = 0;
  for (const Slice& slice : slices_) bytes += slice.end - slice.begin;
  slice_bytes_.resize(std::max(slice_bytes_.size(), times * bytes));
}

std::size_t PageCache::add_pieces(std::size_t place, std::vector<MemoryPiece>& pieces) const {
  for (const Slice& slice : slices_) {
    const std::size_t size = slice.end - slice.begin;
    pieces.push_back({slice.begin, std::span(slice_bytes_).subspan(place, size)});
    place += size;
  }
  return place;
}

// Skips missing data and continues with the rest.
void PageCache::read_slices() const {
  make_room_for_slices(1);
  std::vector<MemoryPiece> pieces;
  pieces.reserve(slices_.size());
  add_pieces(0, pieces);
  for (std::size_t done = 0; done < pieces.size(); ++done) {
    const auto read = peek_pieces(memory_, std::span(pieces).subspan(done));
    if (!read.ok()) return;
    for (const std::size_t end = done + *read; done < end; ++done) {
      slices_[done].bytes = pieces[done].out.data();
    }
  }
}

bool PageCache::peek_twice(std::span<const AddressRange> ranges,
                           std::span<const MemoryPiece> before,
                           std::span<const MemoryPiece> after) {
  add_slices(ranges);
  make_room_for_slices(2);
  std::vector<MemoryPiece> pieces(before.begin(), before.end());
  second_ = add_pieces(0, pieces);
  add_pieces(second_, pieces);
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    slices_[i].bytes = pieces[before.size() + i].out.data();
  }
  pieces.insert(pieces.end(), after.begin(), after.end());
  const auto read = peek_pieces(memory_, pieces);
  return read.ok() && *read == pieces.size();
}

void PageCache::show_second() {
  for (Slice& slice : slices_) slice.bytes += second_;
}

const std::byte* PageCache::peeked(std::uint64_t address, std::size_t bytes) const {
  const auto known = slice_of_.find(address - address % kPageBytes);
  if (known == slice_of_.end() || known->second == kNoSlice) return nullptr;
  const Slice& slice = slices_[known->second];
  const bool is_in =
      slice.bytes != nullptr && address >= slice.begin && address + bytes <= slice.end;
  return is_in ? slice.bytes + (address - slice.begin) : nullptr;
}

void PageCache::fetch_noted() {
  const std::vector<std::uint64_t> wanted = std::exchange(noted_, {});
  fetch(wanted);
}

absl::Status PageCache::read(std::uint64_t address, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::uint64_t inside = address % kPageBytes;
    const std::size_t bytes = std::min<std::size_t>(out.size(), kPageBytes - inside);
    const std::byte* from = slices_.empty() ? nullptr : peeked(address, bytes);
    if (from == nullptr) {
      const Page* const page = page_at(address - inside);
      if (page == nullptr) return absl::OutOfRangeError("not mapped");
      from = page->data() + inside;
    }
    std::copy_n(from, bytes, out.begin());
    out = out.subspan(bytes);
    address += bytes;
    if (address == 0) return absl::OutOfRangeError("not mapped");
  }
  return absl::OkStatus();
}

}  // namespace memprofd
