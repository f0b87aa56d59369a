// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/history.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "daemon/history/history_merge.h"

namespace memprofd {
namespace {

// The highest of many estimates is too high by chance, and more so the more independent ones there
// are: of n differences, each with one standard error, the largest is about sqrt(2 ln n) standard
// errors. Live memory becomes a new estimate once as many words as were live have been freed; while
// nothing is freed, all growth is one estimate. Blocks that are live at both moments add nothing to
// the error: these are the blocks of the peak that cannot have been freed. least_errors: number of
// standard errors of one comparison by which it must be higher.
bool is_higher(const Estimate& live, double gone_words, const Estimate& peak,
               double peak_gone_words, double least_errors) {
  const double renewals = std::max(0.0, gone_words - peak_gone_words) / peak.words;
  const double shared = std::max(0.0, 1 - renewals) * peak.variance_words2;
  const double variance = live.variance_words2 + peak.variance_words2 - 2 * shared;
  const double errors = std::sqrt(least_errors * least_errors + 2 * std::log1p(renewals));
  return live.words - peak.words > errors * std::sqrt(std::max(0.0, variance));
}

// A session of a lower rate has larger errors, which alone could make it the highest. A moment of
// another session is therefore the peak only if it is higher by more than chance and half an error;
// with this margin the maximum over a few sessions has the least bias (docs/internals/accuracy.md).
constexpr double kOtherSessionErrors = 0.5;

}  // namespace

// A tier without windows of its own is filled from the next finer one.
History::History(const HistoryView& before)
    : begin_ns_(before.begin_ns),
      last_close_ns_(before.newest_ns()),
      session_(before.sessions()),
      peak_session_(session_),
      most_upper_bytes_(before.peak_limits.upper),
      peak_(before.peak) {
  std::uint64_t oldest_ns = begin_ns_;
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    const HistoryView::Tier& windows = before.tiers[tier];
    ends_ns_[tier] = oldest_ns;
    for (const HistoryWindowPtr& window : windows) push(tier, window);
    if (!windows.empty()) oldest_ns = windows.front()->begin_ns();
  }
}

bool History::due(std::uint64_t now_ns) const {
  const std::uint64_t width = kHistoryTierLimits[0].width_ns;
  return now_ns / width > last_close_ns_ / width;
}

void History::close_window(std::uint64_t now_ns, const IntervalSource& source,
                           const HistoryPoint& point) {
  auto window = std::make_shared<HistoryWindow>(last_close_ns_, now_ns, point);
  source([&](const Interval& interval, double rate) { window->add_part(interval, rate); });
  window->finish();
  const std::uint64_t before = std::exchange(last_close_ns_, now_ns);
  session_ = point.session;
  push(0, std::move(window));
  for (int tier = 1; tier < kHistoryTiers; ++tier) {
    const std::uint64_t width = kHistoryTierLimits[tier].width_ns;
    if (now_ns / width == before / width) break;
    merge_into(tier, now_ns);
  }
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    while (tiers_[tier].size() > kHistoryTierLimits[tier].windows && drop_oldest(tier)) {
    }
  }
}

// Merges the windows of the finer tier since the last one of this tier into one.
void History::merge_into(int tier, std::uint64_t end_ns) {
  const std::uint64_t begin_ns = ends_ns_[tier];
  std::vector<HistoryWindowPtr> parts;
  for (const HistoryWindowPtr& window : tiers_[tier - 1]) {
    if (window->begin_ns() >= begin_ns) parts.push_back(window);
  }
  push(tier, merge_windows(parts, begin_ns, end_ns));
}

void History::push(int tier, HistoryWindowPtr window) {
  bytes_[tier] += window->memory_bytes();
  memory_bytes_ += window->memory_bytes();
  ends_ns_[tier] = window->end_ns();
  tiers_[tier].push_back(std::move(window));
}

void History::pop_front(int tier) {
  const std::size_t bytes = tiers_[tier].front()->memory_bytes();
  bytes_[tier] -= bytes;
  memory_bytes_ -= bytes;
  tiers_[tier].pop_front();
}

// Drops as many windows as one window of the next tier covers, so that the first remaining one
// begins together with one of that tier.
bool History::drop_oldest(int tier) {
  Windows& windows = tiers_[tier];
  if (windows.empty()) return false;
  if (tier + 1 == kHistoryTiers) {
    pop_front(tier);
    return true;
  }
  const std::uint64_t known_ns = ends_ns_[tier + 1];
  if (windows.front()->end_ns() > known_ns) return false;  // not in the next tier yet
  const Windows& wider = tiers_[tier + 1];
  const auto same = std::find_if(wider.begin(), wider.end(), [&](const HistoryWindowPtr& window) {
    return window->end_ns() > windows.front()->begin_ns();
  });
  const std::uint64_t end_ns = same == wider.end() ? known_ns : (*same)->end_ns();
  while (!windows.empty() && windows.front()->begin_ns() < end_ns) pop_front(tier);
  return true;
}

bool History::evict_oldest() {
  std::array<int, kHistoryTiers> order{};
  for (int tier = 0; tier < kHistoryTiers; ++tier) order[tier] = tier;
  std::sort(order.begin(), order.end(), [&](int a, int b) { return bytes_[a] > bytes_[b]; });
  if (std::any_of(order.begin(), order.end(), [&](int tier) { return drop_oldest(tier); })) {
    return true;
  }
  for (int tier = 0; tier + 1 < kHistoryTiers; ++tier) {
    if (tiers_[tier].empty()) continue;
    merge_into(tier + 1, ends_ns_[tier]);
    return drop_oldest(tier);
  }
  return false;
}

bool History::is_peak(const Highest& now) {
  const bool same = highest_.live.samples > 0 && highest_session_ == session_;
  if (same && !is_higher(now.live, now.gone_words, highest_.live, highest_.gone_words, 0)) {
    return false;
  }
  highest_ = now;
  highest_session_ = session_;
  if (peak_ == nullptr) return true;
  if (peak_session_ == session_) return now.live.words > peak_->live.words;
  return is_higher(now.live, now.gone_words, peak_->live, peak_->gone_words, kOtherSessionErrors);
}

void History::note_live(std::uint64_t now_ns, const Estimate& live, double gone_words,
                        const std::vector<Counters>& by_class) {
  if (live.samples == 0) return;
  most_upper_bytes_ = std::max(most_upper_bytes_, live.limits_bytes(live.grain()).upper);
  if (!is_peak({live, gone_words})) return;
  peak_session_ = session_;
  auto peak = std::make_shared<PeakLive>();
  peak->time_ns = now_ns;
  peak->live = live;
  peak->gone_words = gone_words;
  for (std::uint32_t id = 0; id < by_class.size(); ++id) {
    if (by_class[id].allocated.samples == 0) continue;
    peak->classes.push_back({ClassId(id), by_class[id]});
  }
  peak_ = std::move(peak);
}

Limits History::peak_limits() const {
  if (peak_ == nullptr) return {};
  return {peak_->live.limits_bytes(peak_->live.grain()).lower, most_upper_bytes_};
}

HistoryView History::view() const {
  HistoryView view;
  view.begin_ns = begin_ns_;
  view.peak = peak_;
  view.peak_limits = peak_limits();
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    view.tiers[tier].assign(tiers_[tier].begin(), tiers_[tier].end());
  }
  return view;
}

HistoryView History::view(std::uint64_t now_ns, const IntervalSource& unfinished,
                          const HistoryPoint& point) const {
  HistoryView view = this->view();
  auto window =
      std::make_shared<HistoryWindow>(last_close_ns_, std::max(now_ns, last_close_ns_ + 1), point);
  unfinished([&](const Interval& interval, double rate) { window->add_part(interval, rate); });
  window->finish();
  view.tiers[0].push_back(std::move(window));
  view.unfinished = true;
  return view;
}

}  // namespace memprofd
