// SPDX-License-Identifier: Apache-2.0
// One window of a target's history: the packed events of each class in it.
//
// A window consists of parts, one for each sampling rate in it. A part is a run of cells by
// ascending class. Its counts and lifetimes are stored separately, because most queries need only
// the counts. Counts of a cell:
//
//   u8      bit 0    the class does not follow that of the previous cell: a varint follows,
//                    the number of skipped classes (the first class is 0)
//           bit 1    promoted: a varint follows
//           bit 2    died old: a varint follows
//           bit 3    never followed or forgotten: a varint follows, twice the number never
//                    followed, plus 1 if another varint follows: the number forgotten
//           bit 4    allocated is not died young + promoted: a varint follows, the
//                    difference (0, -1, 1, -2 ... as 0, 1, 2, 3 ...)
//           bits 5-7 died young: 0 to 6; 7: a varint follows, the number above 6
//   then the varints, in this order.
//
//   class 7: allocated 5, promoted 1, died young 4; class 8: allocated 2, died young 2
//   83 07 01   40
//
// Lifetimes of a cell are gamma codes (bit_codes.h), separately for died young and died old, each
// by falling bucket (DeathCounts), until all deaths are covered:
//
//   distance to the previous bucket, which at first is one above the part's longest
//   number of deaths, unless only one is left
//
// Ages of forgotten samples are stored like lifetimes, separate from both.
//
// So a class with one sample that died young costs 1 byte and about 3 bits.
//
// Cells can only be read in sequence. Windows of 10 minutes and more also have marks, about one
// every kBytesPerMark bytes, at which reading may begin, for readers that need only a few classes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "daemon/aggregate/interval.h"
#include "daemon/discover/memory_parts.h"
#include "daemon/util/bit_codes.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// State of the target at one moment.
struct HistoryPoint {
  Estimate live;
  std::uint64_t heap_words = 0;
  std::uint64_t minor_collections = 0;
  std::uint64_t major_collections = 0;
  std::uint64_t compactions = 0;
  std::uint64_t dropped_events = 0;
  std::uint64_t session = 0;  // changes when followed blocks are forgotten
  MemoryParts memory;         // of the whole process; nothing resident: not read yet
};

// Samples of one class in one window. The deaths point into the reader.
struct WindowCell {
  ClassId alloc_class;
  std::uint64_t allocated = 0;
  std::uint64_t promoted = 0;
  std::uint64_t never_followed = 0;          // part of allocated
  std::uint64_t forgotten = 0;               // removed from live memory: sum of ages
  std::array<std::uint64_t, kHeaps> died{};  // sum of deaths by heap
  // Ordered by code. Entries of a heap whose deaths are not read are missing.
  std::span<const DeathCounts::Entry> deaths;
  std::span<const AgeCounts::Entry> ages;
};

// The longest bucket with deaths in each heap; any bucket if there are no deaths.
using LongestBuckets = std::array<std::uint8_t, kHeaps>;

// Selects the heaps whose deaths are read into WindowCell::deaths.
using DeathsToRead = std::array<bool, kHeaps>;
inline constexpr DeathsToRead kAllDeaths = {true, true};
inline constexpr DeathsToRead kNoDeaths = {false, false};

// A position between two cells of a part, relative to the start of the part.
struct WindowMark {
  std::uint32_t cells = 0;
  std::uint32_t next_class = 0;  // at least one above the class of the previous cell
  std::uint32_t counts = 0;      // bytes
  std::array<std::uint32_t, kHeaps> lifetimes = {};  // bits
  std::uint32_t ages = 0;                            // bits

  std::uint32_t bytes() const { return counts + (lifetimes[0] + lifetimes[1] + ages) / 8; }
};

class WindowPartReader;

class HistoryWindow {
 public:
  HistoryWindow(std::uint64_t begin_ns, std::uint64_t end_ns, const HistoryPoint& at_end)
      : begin_ns_(begin_ns), end_ns_(end_ns), at_end_(at_end) {}

  std::uint64_t begin_ns() const { return begin_ns_; }
  std::uint64_t end_ns() const { return end_ns_; }  // exclusive
  const HistoryPoint& at_end() const { return at_end_; }

  // Only for a window that is not shared yet. rate: samples per word.
  void add_part(const Interval& interval, double rate);
  // Adds a part cell by cell: by ascending class, deaths by ascending code, no bucket above the
  // longest and the oldest. Ignores died and forgotten.
  void begin_part(double rate, const LongestBuckets& longest, std::uint8_t oldest);
  void add_cell(const WindowCell& cell);
  // Completes the window. No part may follow; reading requires it.
  void finish();

  // Calls fn(const WindowCell&, rate) in order of the parts, then of the classes.
  template <typename Fn>
  void for_each_cell(Fn fn) const;
  // Like for_each_cell, without deaths, which is faster.
  template <typename Fn>
  void for_each_count(Fn fn) const;
  std::size_t parts() const { return parts_.size(); }
  double rate(std::size_t part) const { return parts_[part].rate; }
  const LongestBuckets& longest(std::size_t part) const { return parts_[part].longest; }
  std::uint8_t oldest(std::size_t part) const { return parts_[part].oldest; }
  WindowPartReader read(std::size_t part, DeathsToRead deaths) const;
  // Memory size in bytes, including this object.
  std::size_t memory_bytes() const;

 private:
  struct Part {
    double rate;
    std::uint32_t cells;
    LongestBuckets longest;
    std::uint8_t oldest;      // bucket of the oldest age; any bucket if there are no ages
    std::uint64_t counts_at;  // byte in counts_
    std::array<std::uint64_t, kHeaps> lifetimes_at;  // bits in lifetimes_
    std::uint64_t ages_at;                           // bit in ages_
    std::uint32_t marks_at;                          // index in marks_
    std::uint32_t marks;
  };
  friend class WindowPartReader;

  static constexpr std::uint64_t kMarkedWidthNs = 600'000'000'000;
  static constexpr std::uint32_t kBytesPerMark = 512;

  void put_count(std::uint64_t value);
  void put_mark();
  std::uint64_t put_lifetimes(std::span<const DeathCounts::Entry> deaths, Heap heap,
                              std::uint8_t longest, BitWriter& out);

  std::uint64_t begin_ns_;
  std::uint64_t end_ns_;
  HistoryPoint at_end_;
  std::vector<Part> parts_;
  std::vector<std::uint8_t> counts_;
  std::array<BitWriter, kHeaps> lifetimes_;
  BitWriter ages_;
  std::vector<WindowMark> marks_;
  std::uint32_t next_class_ = 0;  // above the class of the last cell in the last part
};
using HistoryWindowPtr = std::shared_ptr<const HistoryWindow>;

}  // namespace memprofd

#include "daemon/history/history_window_inl.h"
