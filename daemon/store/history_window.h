// One window of a target's history: what happened to each class in it, packed.
//
// A window is made of parts, one for each sampling rate in it. A part is a run of
// cells by ascending class, each:
//
//   varint  class - class of the cell before (from 0)
//   u8      bits 0-1 allocated: 0, 1, or 2: a varint follows
//           bit 2    promoted: a varint follows
//           bit 3    forgotten: a varint follows
//           bits 4-7 lifetimes: 0 to 14 of them, 15: a varint follows
//   then in this order allocated, promoted, forgotten, number of lifetimes, and
//   for each lifetime u8 heap and bucket (DeathCounts), varint samples
//
//   class 7: allocated 2, one died young in bucket 9, class 9: allocated 1
//   07 12 02 09 01   02 01
//
// So a class that allocated one sample costs 2 bytes, and 2 more for its death.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "daemon/aggregate/interval.h"
#include "daemon/util/estimate.h"

namespace memprofd {

// The target at one moment.
struct HistoryPoint {
  Estimate live;
  std::uint64_t heap_words = 0;
  std::uint64_t minor_collections = 0;
  std::uint64_t major_collections = 0;
  std::uint64_t compactions = 0;
  std::uint64_t dropped_events = 0;
};

// Samples of one class in one window; deaths are borrowed from the reader.
struct WindowCell {
  ClassId alloc_class;
  std::uint32_t allocated = 0;
  std::uint32_t promoted = 0;
  std::uint32_t forgotten = 0;
  std::span<const DeathCounts::Entry> deaths;
};

class HistoryWindow {
 public:
  HistoryWindow(std::uint64_t begin_ns, std::uint64_t end_ns, const HistoryPoint& at_end)
      : begin_ns_(begin_ns), end_ns_(end_ns), at_end_(at_end) {}

  std::uint64_t begin_ns() const { return begin_ns_; }
  std::uint64_t end_ns() const { return end_ns_; }  // exclusive
  const HistoryPoint& at_end() const { return at_end_; }

  // Only before the window is shared. rate in samples per word.
  void add_part(const Interval& interval, double rate);
  void shrink() { bytes_.shrink_to_fit(); }

  // fn(const WindowCell&, rate); in order of the parts, then of the classes.
  template <typename Fn>
  void for_each_cell(Fn fn) const;
  // Bytes of memory, this object included.
  std::size_t memory_bytes() const;

 private:
  struct Part {
    double rate;
    std::uint32_t cells;
  };

  std::uint64_t begin_ns_;
  std::uint64_t end_ns_;
  HistoryPoint at_end_;
  std::vector<Part> parts_;
  std::vector<std::uint8_t> bytes_;
};
using HistoryWindowPtr = std::shared_ptr<const HistoryWindow>;

}  // namespace memprofd

#include "daemon/store/history_window_inl.h"
