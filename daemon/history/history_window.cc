// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/history_window.h"

#include <algorithm>
#include <utility>

namespace memprofd {
namespace {

std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

LongestBuckets longest_of(const Interval& interval) {
  LongestBuckets longest{};
  for (const IntervalCell& cell : interval.cells()) {
    for (const DeathCounts::Entry& death : cell.deaths.entries()) {
      std::uint8_t& of_heap = longest[static_cast<int>(death.heap())];
      of_heap = std::max(of_heap, static_cast<std::uint8_t>(death.bucket()));
    }
  }
  return longest;
}

std::uint8_t oldest_of(const Interval& interval) {
  std::uint8_t oldest = 0;
  for (const IntervalCell& cell : interval.cells()) {
    const auto ages = cell.ages.entries();
    if (!ages.empty()) oldest = std::max(oldest, static_cast<std::uint8_t>(ages.back().bucket()));
  }
  return oldest;
}

}  // namespace

void HistoryWindow::put_count(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) counts_.push_back(static_cast<std::uint8_t>(value | 0x80));
  counts_.push_back(static_cast<std::uint8_t>(value));
}

void HistoryWindow::begin_part(double rate, const LongestBuckets& longest, std::uint8_t oldest) {
  parts_.push_back({rate,
                    0,
                    longest,
                    oldest,
                    counts_.size(),
                    {lifetimes_[0].position(), lifetimes_[1].position()},
                    ages_.position(),
                    static_cast<std::uint32_t>(marks_.size()),
                    0});
  next_class_ = 0;
}

void HistoryWindow::put_mark() {
  if (end_ns_ - begin_ns_ < kMarkedWidthNs) return;
  Part& part = parts_.back();
  const auto since = [](std::uint64_t at, std::uint64_t begin) {
    return static_cast<std::uint32_t>(at - begin);
  };
  const WindowMark here{part.cells,
                        next_class_,
                        since(counts_.size(), part.counts_at),
                        {since(lifetimes_[0].position(), part.lifetimes_at[0]),
                         since(lifetimes_[1].position(), part.lifetimes_at[1])},
                        since(ages_.position(), part.ages_at)};
  const WindowMark before = part.marks > 0 ? marks_.back() : WindowMark();
  if (here.bytes() - before.bytes() < kBytesPerMark) return;
  marks_.push_back(here);
  ++part.marks;
}

// Returns their number.
std::uint64_t HistoryWindow::put_lifetimes(std::span<const DeathCounts::Entry> deaths, Heap heap,
                                           std::uint8_t longest, BitWriter& out) {
  std::uint64_t all = 0;
  for (const DeathCounts::Entry& death : deaths) {
    if (death.heap() == heap) all += death.n;
  }
  int before = longest + 1;
  std::uint64_t left = all;
  for (auto death = deaths.rbegin(); death != deaths.rend() && left > 0; ++death) {
    if (death->heap() != heap) continue;
    out.put_gamma(static_cast<std::uint64_t>(before - death->bucket()));
    before = death->bucket();
    if (left > 1) out.put_gamma(death->n);
    left -= death->n;
  }
  return all;
}

void HistoryWindow::add_cell(const WindowCell& cell) {
  put_mark();
  ++parts_.back().cells;
  const Part& part = parts_.back();
  const std::uint64_t old =
      put_lifetimes(cell.deaths, Heap::kMajor, part.longest[1], lifetimes_[1]);
  const std::uint64_t young =
      put_lifetimes(cell.deaths, Heap::kMinor, part.longest[0], lifetimes_[0]);
  const std::uint64_t forgotten = put_lifetimes(cell.ages, Heap::kMinor, part.oldest, ages_);
  const std::uint32_t passed = cell.alloc_class.value() - next_class_;
  next_class_ = cell.alloc_class.value() + 1;
  const auto difference = static_cast<std::int64_t>(cell.allocated - young - cell.promoted);
  const std::uint64_t unfollowed = cell.never_followed << 1 | (forgotten != 0 ? 1 : 0);
  counts_.push_back(static_cast<std::uint8_t>((passed != 0 ? 1 : 0) | (cell.promoted != 0 ? 2 : 0) |
                                              (old != 0 ? 4 : 0) | (unfollowed != 0 ? 8 : 0) |
                                              (difference != 0 ? 16 : 0) |
                                              std::min<std::uint64_t>(young, 7) << 5));
  if (passed != 0) put_count(passed);
  if (cell.promoted != 0) put_count(cell.promoted);
  if (old != 0) put_count(old);
  if (unfollowed != 0) put_count(unfollowed);
  if (forgotten != 0) put_count(forgotten);
  if (difference != 0) put_count(zigzag(difference));
  if (young >= 7) put_count(young - 7);
}

void HistoryWindow::add_part(const Interval& interval, double rate) {
  std::vector<std::pair<ClassId, const IntervalCell*>> cells;
  cells.reserve(interval.cells().size());
  for (const IntervalCell& cell : interval.cells()) cells.emplace_back(cell.alloc_class, &cell);
  std::sort(cells.begin(), cells.end());
  begin_part(rate, longest_of(interval), oldest_of(interval));
  for (const auto& [id, cell] : cells) {
    add_cell({.alloc_class = id,
              .allocated = cell->allocated,
              .promoted = cell->promoted,
              .never_followed = cell->never_followed,
              .deaths = cell->deaths.entries(),
              .ages = cell->ages.entries()});
  }
}

void HistoryWindow::finish() {
  counts_.shrink_to_fit();
  for (BitWriter& lifetimes : lifetimes_) lifetimes.finish();
  ages_.finish();
  marks_.shrink_to_fit();
}

std::size_t HistoryWindow::memory_bytes() const {
  return sizeof(*this) + parts_.capacity() * sizeof(Part) + counts_.capacity() +
         lifetimes_[0].bytes().capacity() + lifetimes_[1].bytes().capacity() +
         ages_.bytes().capacity() + marks_.capacity() * sizeof(WindowMark);
}

}  // namespace memprofd
