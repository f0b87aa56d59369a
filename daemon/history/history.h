// SPDX-License-Identifier: Apache-2.0
// Records the history of a target. Owned by the ingest thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include "daemon/aggregate/counters.h"
#include "daemon/history/history_view.h"

namespace memprofd {

struct HistoryTier {
  std::uint64_t width_ns;
  std::size_t windows;  // approximate maximum
};
// Each width is a multiple of the previous one. The tiers cover 10 min, 2 h, 24 h, 24 h, 24 h.
inline constexpr std::array<HistoryTier, kHistoryTiers> kHistoryTierLimits = {{
    {1'000'000'000, 600},
    {10'000'000'000, 720},
    {60'000'000'000, 1440},
    {600'000'000'000, 144},
    {3'600'000'000'000, 24},
}};

// Source of a window: calls use(interval, rate) for each rate.
using IntervalSource = std::function<void(const std::function<void(const Interval&, double)>& use)>;

class History {
 public:
  explicit History(std::uint64_t begin_ns) : begin_ns_(begin_ns), last_close_ns_(begin_ns) {
    ends_ns_.fill(begin_ns);
  }

  // Continues the history of the same program. Its last window counts as finished.
  explicit History(const HistoryView& before);

  // True if the current window should have ended by now.
  bool due(std::uint64_t now_ns) const;
  std::uint64_t last_close_ns() const { return last_close_ns_; }
  // Ends the current window. now_ns must never decrease.
  void close_window(std::uint64_t now_ns, const IntervalSource& source, const HistoryPoint& point);
  // Called after each window; remembers the highest live memory. gone_words: allocated so far and
  // no longer live. by_class: indexed by ClassId.
  void note_live(std::uint64_t now_ns, const Estimate& live, double gone_words,
                 const std::vector<Counters>& by_class);

  HistoryView view() const;
  // Like view(), plus a last window up to now made from the source. That window is not stored.
  HistoryView view(std::uint64_t now_ns, const IntervalSource& unfinished,
                   const HistoryPoint& point) const;

  std::size_t memory_bytes() const { return memory_bytes_; }
  // Drops the oldest windows of the largest tier. Windows that are not yet part of a wider one are
  // merged into one first. Returns false if there is nothing to drop.
  bool evict_oldest();

 private:
  using Windows = std::deque<HistoryWindowPtr>;

  void push(int tier, HistoryWindowPtr window);
  void pop_front(int tier);
  void merge_into(int tier, std::uint64_t end_ns);
  bool drop_oldest(int tier);

  std::uint64_t begin_ns_;
  std::uint64_t last_close_ns_;
  std::array<Windows, kHistoryTiers> tiers_;
  // End of the newest window of each tier, including dropped windows.
  std::array<std::uint64_t, kHistoryTiers> ends_ns_{};
  std::array<std::size_t, kHistoryTiers> bytes_{};
  std::size_t memory_bytes_ = 0;
  // The highest live memory of the current session, as compared by is_higher().
  struct Highest {
    Estimate live;
    double gone_words = 0;
  };
  // Updates the highest live memory with this state and returns whether it is the peak.
  bool is_peak(const Highest& now);
  Limits peak_limits() const;

  std::uint64_t session_ = 0;  // session of the last window
  std::uint64_t highest_session_ = 0, peak_session_ = 0;
  Highest highest_;
  double most_upper_bytes_ = 0;  // largest upper limit of live memory so far
  std::shared_ptr<const PeakLive> peak_;
};

}  // namespace memprofd
