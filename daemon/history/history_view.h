// SPDX-License-Identifier: Apache-2.0
// An immutable view of a target's history for readers: windows of several widths, the finest for
// the last minutes only.
//
// Every tier is complete from its first window on, and a tier's first window begins where one of
// the next tier does:
//
//   1 h   |---------------------------|
//   600 s |---------------|
//    60 s |-|-|-|-|-|-|-|-|-|-|
//    10 s             |||||||||||||
//     1 s                      ||||||||:      :  the unfinished second
//         ^oldest                        ^newest
//
// A span is covered with the widest windows that fit, from its start on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/aggregate/counters.h"
#include "daemon/history/history_window.h"
#include "daemon/model/query.h"

namespace memprofd {

inline constexpr int kHistoryTiers = 5;

// All counts from the start until the moment with the most live bytes.
struct PeakLive {
  struct Class {
    ClassId id;
    Counters counters;
  };
  std::uint64_t time_ns = 0;  // CLOCK_REALTIME; end of a window of the finest tier
  Estimate live;
  double gone_words = 0;       // total of all blocks by then: allocated and no longer live
  std::vector<Class> classes;  // classes with any count, by id
};

struct HistoryView {
  using Tier = std::vector<HistoryWindowPtr>;

  // Index 0 is the finest tier; its last window may be unfinished.
  std::array<Tier, kHistoryTiers> tiers;
  bool unfinished = false;               // the finest tier's last window is unfinished
  std::uint64_t begin_ns = 0;            // start of the recording
  std::shared_ptr<const PeakLive> peak;  // null: nothing was ever live
  // 95 % limits, in bytes, of the highest live memory: at the moment of the peak or at another
  // moment, at which live memory may have been higher than its estimate.
  Limits peak_limits;

  bool empty() const { return tiers[0].empty(); }
  // Start of the oldest remaining window; later than begin_ns if some were dropped. 0 if there are
  // no windows.
  std::uint64_t oldest_ns() const;
  std::uint64_t newest_ns() const;
  // Number of sessions at the end, as in HistoryPoint::session.
  std::uint64_t sessions() const { return empty() ? 0 : tiers[0].back()->at_end().session; }
  // The window boundary nearest to the time.
  std::uint64_t snap(std::uint64_t time_ns) const;
  // The windows between begin and end, both of which are window boundaries, in order.
  std::vector<HistoryWindowPtr> cover(std::uint64_t begin_ns, std::uint64_t end_ns) const;
  // Like cover(), with the narrowest windows.
  std::vector<HistoryWindowPtr> finest(std::uint64_t begin_ns, std::uint64_t end_ns) const;
  // The session to which a window boundary belongs; nullopt if no window ends there.
  std::optional<std::uint64_t> session_at(std::uint64_t time_ns) const;
  // Like cover(), grouped into at most max_steps steps of about equal length, for series. An
  // unfinished window that is much shorter is added to the step before it, because its own rates
  // would mean nothing.
  std::vector<Tier> steps(std::uint64_t begin_ns, std::uint64_t end_ns,
                          std::size_t max_steps) const;
};

}  // namespace memprofd
