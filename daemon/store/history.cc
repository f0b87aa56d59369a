#include "daemon/store/history.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace memprofd {
namespace {

struct Merged {
  double rate;
  Interval interval;
};

Interval& interval_of(std::vector<Merged>& merged, double rate) {
  for (Merged& candidate : merged) {
    if (candidate.rate == rate) return candidate.interval;
  }
  return merged.emplace_back(Merged{rate, {}}).interval;
}

void add(IntervalCell& to, const WindowCell& cell) {
  to.allocated += cell.allocated;
  to.promoted += cell.promoted;
  to.forgotten += cell.forgotten;
  for (const DeathCounts::Entry& death : cell.deaths) to.deaths.add_code(death.code, death.n);
}

}  // namespace

bool History::due(std::uint64_t now_ns) const {
  const std::uint64_t width = kHistoryTierLimits[0].width_ns;
  return now_ns / width > last_cut_ns_ / width;
}

void History::cut(std::uint64_t now_ns, const IntervalSource& source, const HistoryPoint& point) {
  auto window = std::make_shared<HistoryWindow>(last_cut_ns_, now_ns, point);
  source([&](const Interval& interval, double rate) { window->add_part(interval, rate); });
  window->shrink();
  const std::uint64_t before = std::exchange(last_cut_ns_, now_ns);
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

std::uint64_t History::tier_end(int tier) const {
  return tiers_[tier].empty() ? begin_ns_ : tiers_[tier].back()->end_ns();
}

// One window from those of the finer tier since the last one of this tier.
void History::merge_into(int tier, std::uint64_t end_ns) {
  const std::uint64_t begin_ns = tier_end(tier);
  std::vector<Merged> merged;
  for (const HistoryWindowPtr& window : tiers_[tier - 1]) {
    if (window->begin_ns() < begin_ns) continue;
    window->for_each_cell([&](const WindowCell& cell, double rate) {
      add(interval_of(merged, rate).cell(cell.alloc_class), cell);
    });
  }
  auto window =
      std::make_shared<HistoryWindow>(begin_ns, end_ns, tiers_[tier - 1].back()->at_end());
  for (const Merged& part : merged) window->add_part(part.interval, part.rate);
  window->shrink();
  push(tier, std::move(window));
}

void History::push(int tier, HistoryWindowPtr window) {
  bytes_[tier] += window->memory_bytes();
  memory_bytes_ += window->memory_bytes();
  tiers_[tier].push_back(std::move(window));
}

void History::pop_front(int tier) {
  const std::size_t bytes = tiers_[tier].front()->memory_bytes();
  bytes_[tier] -= bytes;
  memory_bytes_ -= bytes;
  tiers_[tier].pop_front();
}

// As many as make up one window of the next tier, so that the first one left
// begins where one of that tier does.
bool History::drop_oldest(int tier) {
  Windows& windows = tiers_[tier];
  if (windows.empty()) return false;
  if (tier + 1 == kHistoryTiers) {
    pop_front(tier);
    return true;
  }
  const Windows& wider = tiers_[tier + 1];
  const auto same = std::find_if(wider.begin(), wider.end(), [&](const HistoryWindowPtr& window) {
    return window->end_ns() > windows.front()->begin_ns();
  });
  if (same == wider.end()) return false;  // not in the next tier yet
  const std::uint64_t end_ns = (*same)->end_ns();
  while (!windows.empty() && windows.front()->begin_ns() < end_ns) pop_front(tier);
  return true;
}

bool History::shed() {
  std::array<int, kHistoryTiers> order{};
  for (int tier = 0; tier < kHistoryTiers; ++tier) order[tier] = tier;
  std::sort(order.begin(), order.end(), [&](int a, int b) { return bytes_[a] > bytes_[b]; });
  return std::any_of(order.begin(), order.end(), [&](int tier) { return drop_oldest(tier); });
}

void History::see_live(std::uint64_t now_ns, const Estimate& total,
                       const std::vector<Counters>& live) {
  if (total.samples == 0 || (peak_ != nullptr && total.words <= peak_->live.words)) return;
  auto peak = std::make_shared<PeakLive>();
  peak->time_ns = now_ns;
  peak->live = total;
  for (std::uint32_t id = 0; id < live.size(); ++id) {
    if (live[id].live.samples == 0) continue;
    peak->classes.push_back({ClassId(id), live[id].live, live[id].live_objects});
  }
  peak_ = std::move(peak);
}

HistoryView History::view() const {
  HistoryView view;
  view.begin_ns = begin_ns_;
  view.peak = peak_;
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    view.tiers[tier].assign(tiers_[tier].begin(), tiers_[tier].end());
  }
  return view;
}

HistoryView History::view(std::uint64_t now_ns, const IntervalSource& unfinished,
                          const HistoryPoint& point) const {
  HistoryView view = this->view();
  auto window =
      std::make_shared<HistoryWindow>(last_cut_ns_, std::max(now_ns, last_cut_ns_ + 1), point);
  unfinished([&](const Interval& interval, double rate) { window->add_part(interval, rate); });
  view.tiers[0].push_back(std::move(window));
  return view;
}

}  // namespace memprofd
