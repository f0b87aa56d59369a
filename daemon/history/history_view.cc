// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/history_view.h"

#include <algorithm>

namespace memprofd {
namespace {

// Maximum number of windows that are read for one step; more would only cost time.
constexpr std::size_t kWindowsPerStep = 4;

std::uint64_t length_ns(const HistoryView::Tier& step) {
  return step.back()->end_ns() - step.front()->begin_ns();
}

// The first window that ends after this time.
HistoryView::Tier::const_iterator window_at(const HistoryView::Tier& tier, std::uint64_t time_ns) {
  return std::upper_bound(
      tier.begin(), tier.end(), time_ns,
      [](std::uint64_t time, const HistoryWindowPtr& window) { return time < window->end_ns(); });
}

// The window of a tier that begins exactly there and ends by the end of the range, or null.
HistoryWindowPtr fitting(const HistoryView::Tier& tier, std::uint64_t begin_ns,
                         std::uint64_t end_ns) {
  const auto found = window_at(tier, begin_ns);
  if (found == tier.end() || (*found)->begin_ns() != begin_ns) return nullptr;
  return (*found)->end_ns() <= end_ns ? *found : nullptr;
}

// Tiers wider than this one are not used.
std::vector<HistoryWindowPtr> cover_up_to(const HistoryView& view, std::uint64_t begin_ns,
                                          std::uint64_t end_ns, int widest) {
  std::vector<HistoryWindowPtr> result;
  for (std::uint64_t at = begin_ns; at < end_ns;) {
    HistoryWindowPtr next;
    for (int tier = widest; tier >= 0 && next == nullptr; --tier) {
      next = fitting(view.tiers[tier], at, end_ns);
    }
    // For times before these tiers, uses the narrowest of the wider ones.
    for (int tier = widest + 1; tier < kHistoryTiers && next == nullptr; ++tier) {
      next = fitting(view.tiers[tier], at, end_ns);
    }
    if (next == nullptr) break;
    at = next->end_ns();
    result.push_back(std::move(next));
  }
  return result;
}

}  // namespace

std::uint64_t HistoryView::oldest_ns() const {
  std::uint64_t oldest = 0;
  for (const Tier& tier : tiers) {
    if (!tier.empty() && (oldest == 0 || tier.front()->begin_ns() < oldest)) {
      oldest = tier.front()->begin_ns();
    }
  }
  return oldest;
}

std::uint64_t HistoryView::newest_ns() const {
  return tiers[0].empty() ? begin_ns : tiers[0].back()->end_ns();
}

std::uint64_t HistoryView::snap(std::uint64_t time_ns) const {
  for (const Tier& tier : tiers) {
    if (tier.empty() || time_ns < tier.front()->begin_ns()) continue;
    const auto window = window_at(tier, time_ns);
    if (window == tier.end()) return newest_ns();
    const std::uint64_t begin = (*window)->begin_ns(), end = (*window)->end_ns();
    return time_ns - begin <= end - time_ns ? begin : end;
  }
  return empty() ? begin_ns : oldest_ns();
}

std::vector<HistoryWindowPtr> HistoryView::cover(std::uint64_t begin_ns,
                                                 std::uint64_t end_ns) const {
  return cover_up_to(*this, begin_ns, end_ns, kHistoryTiers - 1);
}

std::vector<HistoryWindowPtr> HistoryView::finest(std::uint64_t begin_ns,
                                                  std::uint64_t end_ns) const {
  return cover_up_to(*this, begin_ns, end_ns, 0);
}

std::optional<std::uint64_t> HistoryView::session_at(std::uint64_t time_ns) const {
  for (const Tier& tier : tiers) {
    const auto window = window_at(tier, time_ns - 1);
    if (window != tier.end() && (*window)->end_ns() == time_ns) return (*window)->at_end().session;
  }
  return std::nullopt;
}

std::vector<HistoryView::Tier> HistoryView::steps(std::uint64_t begin_ns, std::uint64_t end_ns,
                                                  std::size_t max_steps) const {
  Tier windows;
  for (int widest = 0; widest < kHistoryTiers; ++widest) {
    windows = cover_up_to(*this, begin_ns, end_ns, widest);
    if (windows.size() <= max_steps * kWindowsPerStep) break;
  }
  std::vector<Tier> steps;
  max_steps = std::max<std::size_t>(max_steps, 1);
  const std::size_t each = (windows.size() + max_steps - 1) / max_steps;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (i % each == 0) steps.emplace_back();
    steps.back().push_back(std::move(windows[i]));
  }
  if (steps.size() < 2 || length_ns(steps.back()) * 2 >= length_ns(*(steps.end() - 2)))
    return steps;
  const Tier last = std::move(steps.back());
  steps.pop_back();
  steps.back().insert(steps.back().end(), last.begin(), last.end());
  return steps;
}

}  // namespace memprofd
