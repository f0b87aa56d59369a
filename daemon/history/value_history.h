// SPDX-License-Identifier: Apache-2.0
// Published values of a program over time; owned by the ingest thread. Windows have the widths of
// the history's (history.h) and share its bound. Each tier is made from all samples, and complete
// from its first window on:
//
//    60 s |-------|-------|-------|...       |  the one that runs
//    10 s         |-|-|-|-|-|-|-|-|-|...
//     1 s                         |||||||||||...
//
// Each series is a column of a window, by the series' number; numbers are assigned in the order of
// first appearance and never reused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "daemon/history/history.h"
#include "daemon/history/value_sample.h"

namespace memprofd {

// The time from one sample to another. A series that was not reported then has no number (NaN).
struct ValueWindow {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;  // when the last sample was
  std::vector<double> last;  // by series; those behind the last one have none
  std::vector<double> low;   // of all samples; empty: there was one, or all were the same
  std::vector<double> high;

  std::size_t memory_bytes() const;
};
using ValueWindowPtr = std::shared_ptr<const ValueWindow>;
using ValueLinePtr = std::shared_ptr<const ValueLine>;

// Immutable; shared by readers.
struct ValueHistoryView {
  using Tier = std::vector<ValueWindowPtr>;

  std::vector<std::shared_ptr<const ValueSeries>> series;
  std::array<Tier, kHistoryTiers> tiers;  // 0 is the finest; its last window may be unfinished
  bool unfinished = false;                // that one is
  std::vector<ValueLinePtr> lines;        // of the log, pauses among them
  std::vector<ValueLinePtr> phases;       // begins and ends
  std::uint64_t refused = 0;              // series for which there was no place
  std::uint64_t lost_lines = 0;           // that were gone before they were read
  std::uint64_t next_line = 0;            // number of the first that was not read

  std::uint64_t oldest_ns() const;  // 0: there is none
  std::uint64_t newest_ns() const;
  // Windows that follow one another within begin to end, narrow ones where they are left, merged to
  // at most max_steps.
  Tier steps(std::uint64_t begin_ns, std::uint64_t end_ns, std::size_t max_steps) const;

 private:
  Tier cover(std::uint64_t begin_ns, std::uint64_t end_ns, std::size_t steps) const;
};
using ValueHistoryViewPtr = std::shared_ptr<const ValueHistoryView>;

class ValueHistory {
 public:
  // The series of a target; a program has at most 511 observations, a table four numbers.
  static constexpr std::size_t kMaxSeries = 2048;
  static constexpr std::size_t kMaxLines = 4096;  // and as many begins and ends of phases

  ValueHistory() = default;
  // Goes on where that of the same program has ended.
  explicit ValueHistory(const ValueHistoryView& before);

  // Times never go back; what does is left out.
  void note(const ValueSample& sample);
  // No more samples come.
  void end();
  bool empty() const { return series_.empty() && lines_.empty() && phases_.empty(); }

  // Null: no values were ever published.
  ValueHistoryViewPtr view() const;

  std::size_t memory_bytes() const;
  // Gives up the oldest of what takes the most. False when there is nothing to give up.
  bool evict_oldest();

 private:
  using Lines = std::deque<ValueLinePtr>;
  struct Tier {
    std::deque<ValueWindowPtr> windows;
    ValueWindow open;
    bool has_samples = false;  // the open one
    std::size_t bytes = 0;
  };

  std::vector<double> row_of(const ValueSample& sample);
  void add(int tier, const ValueWindow& narrower);
  void close(int tier);
  void push(int tier, ValueWindowPtr window);
  void pop_front(int tier);
  void note_lines(const std::vector<ValueLine>& lines);
  void add_line(Lines& lines, ValueLinePtr line);
  void pop_line(Lines& lines);

  std::map<ValueSeries, std::uint32_t> numbers_;  // of series
  std::vector<std::shared_ptr<const ValueSeries>> series_;
  std::array<Tier, kHistoryTiers> tiers_;
  Lines lines_;
  Lines phases_;
  std::size_t line_bytes_ = 0;  // of both
  std::size_t series_bytes_ = 0;
  std::uint64_t last_ns_ = 0;  // of a sample
  bool has_lines_ = false;     // next_line_ is known
  std::uint64_t next_line_ = 0;
  std::uint64_t waited_for_ = 0;  // what next_line_ was when a line was not whole
  std::uint64_t refused_ = 0;
  std::uint64_t lost_lines_ = 0;
  mutable ValueHistoryViewPtr view_;  // null: must be rebuilt
};

}  // namespace memprofd
