// SPDX-License-Identifier: Apache-2.0
// Records a target's history; owned by the ingest thread.
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
  std::size_t windows;  // kept at most, about
};
// Each width a multiple of the one before. 10 min, 2 h, 24 h, 24 h, 24 h.
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

  // Goes on where that of the same program has ended; its last window, finished or not, is one.
  explicit History(const HistoryView& before);

  // True if a window should have ended by now.
  bool due(std::uint64_t now_ns) const;
  std::uint64_t last_close_ns() const { return last_close_ns_; }
  // Ends the window that runs. now_ns never goes back.
  void close_window(std::uint64_t now_ns, const IntervalSource& source, const HistoryPoint& point);
  // Called after each window; keeps the highest. gone_words: allocated so far and no longer live.
  // by_class: by ClassId.
  void note_live(std::uint64_t now_ns, const Estimate& live, double gone_words,
                 const std::vector<Counters>& by_class);

  HistoryView view() const;
  // The same with a last window up to now made from the source, which is not kept.
  HistoryView view(std::uint64_t now_ns, const IntervalSource& unfinished,
                   const HistoryPoint& point) const;

  std::size_t memory_bytes() const { return memory_bytes_; }
  // Gives up the oldest windows of the tier that takes the most; those not yet in
  // a wider one are made into one early. False when there is nothing to give up.
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
  // When the newest window of each tier ends, windows given up included.
  std::array<std::uint64_t, kHistoryTiers> ends_ns_{};
  std::array<std::size_t, kHistoryTiers> bytes_{};
  std::size_t memory_bytes_ = 0;
  // The highest live memory of the running session, as judged by is_higher().
  struct Highest {
    Estimate live;
    double gone_words = 0;
  };
  // Takes it in.
  bool is_peak(const Highest& now);
  Limits peak_limits() const;

  std::uint64_t session_ = 0;  // of the last window
  std::uint64_t highest_session_ = 0, peak_session_ = 0;
  Highest highest_;
  double most_upper_bytes_ = 0;  // largest upper limit of live memory at any moment
  std::shared_ptr<const PeakLive> peak_;
};

}  // namespace memprofd
