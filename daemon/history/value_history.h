// SPDX-License-Identifier: Apache-2.0
// Published values of a program over time. Owned by the ingest thread. Windows have the widths of
// the history's (history.h) and share its memory limit. Each tier is made from all samples, and
// complete from its first window on:
//
//    60 s |-------|-------|-------|...       |  the current one
//    10 s         |-|-|-|-|-|-|-|-|-|-|...
//     1 s                         |||||||||||...
//
// Each series is a column of a window, indexed by the series' number. Numbers are assigned in the
// order of first appearance and never reused.
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

// The time from one sample to another. A series without a value has NaN.
struct ValueWindow {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;  // time of the last sample
  std::vector<double> last;  // by series; later series have no value
  std::vector<double> low;   // minimum of all samples; empty: equal to last
  std::vector<double> high;

  std::size_t memory_bytes() const;
};
using ValueWindowPtr = std::shared_ptr<const ValueWindow>;
using ValueLinePtr = std::shared_ptr<const ValueLine>;

// Immutable; shared by readers.
struct ValueHistoryView {
  using Tier = std::vector<ValueWindowPtr>;

  std::vector<std::shared_ptr<const ValueSeries>> series;
  std::array<Tier, kHistoryTiers> tiers;  // index 0 is the finest; its last window may be
                                          // unfinished
  bool unfinished = false;                // the finest tier's last window is unfinished
  std::vector<ValueLinePtr> lines;        // log lines, including pauses
  std::vector<ValueLinePtr> phases;       // begins and ends of phases
  std::uint64_t refused = 0;              // series that exceeded the limit
  std::uint64_t lost_lines = 0;           // lines evicted before they were read
  std::uint64_t next_line = 0;            // number of the first unread line

  std::uint64_t oldest_ns() const;  // 0: there are no windows
  std::uint64_t newest_ns() const;
  // Consecutive windows between begin and end, with the narrowest available widths, merged to at
  // most max_steps.
  Tier steps(std::uint64_t begin_ns, std::uint64_t end_ns, std::size_t max_steps) const;

 private:
  Tier cover(std::uint64_t begin_ns, std::uint64_t end_ns, std::size_t steps) const;
};
using ValueHistoryViewPtr = std::shared_ptr<const ValueHistoryView>;

class ValueHistory {
 public:
  // Maximum number of series per target; a program has at most 511 observations, a table needs four
  // series.
  static constexpr std::size_t kMaxSeries = 2048;
  static constexpr std::size_t kMaxLines = 4096;  // and as many begins and ends of phases

  ValueHistory() = default;
  // Continues the history of the same program.
  explicit ValueHistory(const ValueHistoryView& before);

  // Times must not decrease; samples with earlier times are ignored.
  void note(const ValueSample& sample);
  // Declares that no more samples follow.
  void end();
  bool empty() const { return series_.empty() && lines_.empty() && phases_.empty(); }

  // Returns null if no values were ever published.
  ValueHistoryViewPtr view() const;

  std::size_t memory_bytes() const;
  // Drops the oldest entries of whatever takes the most memory. Returns false if there is nothing
  // to drop.
  bool evict_oldest();

 private:
  using Lines = std::deque<ValueLinePtr>;
  struct Tier {
    std::deque<ValueWindowPtr> windows;
    ValueWindow open;
    bool has_samples = false;  // the open window has samples
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

  std::map<ValueSeries, std::uint32_t> numbers_;  // number by series
  std::vector<std::shared_ptr<const ValueSeries>> series_;
  std::array<Tier, kHistoryTiers> tiers_;
  Lines lines_;
  Lines phases_;
  std::size_t line_bytes_ = 0;  // of lines_ and phases_
  std::size_t series_bytes_ = 0;
  std::uint64_t last_ns_ = 0;  // time of the last sample
  bool has_lines_ = false;     // next_line_ is known
  std::uint64_t next_line_ = 0;
  std::uint64_t waited_for_ = 0;  // value of next_line_ when a line was incomplete
  std::uint64_t refused_ = 0;
  std::uint64_t lost_lines_ = 0;
  mutable ValueHistoryViewPtr view_;  // null: must be rebuilt
};

}  // namespace memprofd
