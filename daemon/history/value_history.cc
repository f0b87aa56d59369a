// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/value_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace memprofd {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::size_t bytes_of(const ValueLine& line) { return sizeof line + line.text.capacity(); }

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Sets each number to choose(a, b), or to the only known one.
template <typename Choose>
void take_in(std::vector<double>& into, const std::vector<double>& other, const Choose& choose) {
  if (into.size() < other.size()) into.resize(other.size(), kUnknown);
  for (std::size_t i = 0; i < other.size(); ++i) {
    if (std::isnan(other[i])) continue;
    into[i] = std::isnan(into[i]) ? other[i] : choose(into[i], other[i]);
  }
}

bool differ(const std::vector<double>& a, const std::vector<double>& b) {
  return !std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same);
}

// Extends a window by the length of another one.
void extend(ValueWindow& window, const ValueWindow& by) {
  if (window.low.empty() && (!by.low.empty() || differ(window.last, by.last))) {
    window.low = window.high = window.last;
  }
  if (!window.low.empty()) {
    take_in(window.low, by.low.empty() ? by.last : by.low,
            [](double a, double b) { return std::min(a, b); });
    take_in(window.high, by.high.empty() ? by.last : by.high,
            [](double a, double b) { return std::max(a, b); });
  }
  take_in(window.last, by.last, [](double, double b) { return b; });
  window.end_ns = by.end_ns;
}

// The first window that ends after this time; null if there is none.
ValueWindowPtr window_after(const ValueHistoryView::Tier& tier, std::uint64_t time_ns) {
  const auto found = std::upper_bound(
      tier.begin(), tier.end(), time_ns,
      [](std::uint64_t time, const ValueWindowPtr& window) { return time < window->end_ns; });
  return found == tier.end() ? nullptr : *found;
}

// The widest tier whose windows are no longer than a step.
int tier_for(std::uint64_t length_ns, std::size_t steps) {
  const std::uint64_t step_ns = length_ns / std::max<std::size_t>(steps, 1);
  int tier = 0;
  while (tier + 1 < kHistoryTiers && kHistoryTierLimits[tier + 1].width_ns <= step_ns) ++tier;
  return tier;
}

}  // namespace

std::string name_with_labels(const std::string& name, const ValueLabels& labels) {
  if (labels.empty()) return name;
  return absl::StrCat(name, "{", absl::StrJoin(labels, ",", absl::PairFormatter("=")), "}");
}

std::size_t ValueSeries::memory_bytes() const {
  std::size_t bytes = sizeof *this + name.capacity() + unit.capacity();
  for (const auto& [label, value] : labels) {
    bytes += sizeof label + sizeof value + label.capacity() + value.capacity();
  }
  return bytes;
}

std::size_t ValueWindow::memory_bytes() const {
  return sizeof *this + (last.capacity() + low.capacity() + high.capacity()) * sizeof(double);
}

std::uint64_t ValueHistoryView::oldest_ns() const {
  std::uint64_t oldest = 0;
  for (const Tier& tier : tiers) {
    if (!tier.empty() && (oldest == 0 || tier.front()->begin_ns < oldest)) {
      oldest = tier.front()->begin_ns;
    }
  }
  return oldest;
}

std::uint64_t ValueHistoryView::newest_ns() const {
  return tiers[0].empty() ? 0 : tiers[0].back()->end_ns;
}

ValueHistoryView::Tier ValueHistoryView::cover(std::uint64_t begin_ns, std::uint64_t end_ns,
                                               std::size_t steps) const {
  const int wanted = tier_for(end_ns - std::min(begin_ns, end_ns), steps);
  std::vector<int> order;
  for (int tier = wanted; tier < kHistoryTiers; ++tier) order.push_back(tier);
  for (int tier = wanted - 1; tier >= 0; --tier) order.push_back(tier);
  Tier windows;
  for (std::uint64_t at = begin_ns; at < end_ns;) {
    ValueWindowPtr next;
    for (const int tier : order) {
      ValueWindowPtr window = window_after(tiers[tier], at);
      if (window == nullptr || window->end_ns > end_ns) continue;
      // If no window is known yet, takes the one that begins first.
      const bool is_nearer = next == nullptr || window->begin_ns < next->begin_ns;
      if (is_nearer) next = std::move(window);
      if (next->begin_ns <= at) break;
    }
    if (next == nullptr) break;
    at = next->end_ns;
    windows.push_back(std::move(next));
  }
  return windows;
}

ValueHistoryView::Tier ValueHistoryView::steps(std::uint64_t begin_ns, std::uint64_t end_ns,
                                               std::size_t max_steps) const {
  max_steps = std::max<std::size_t>(max_steps, 1);
  const Tier windows = cover(begin_ns, end_ns, max_steps);
  const std::size_t each = (windows.size() + max_steps - 1) / max_steps;
  if (each <= 1) return windows;
  Tier steps;
  for (std::size_t i = 0; i < windows.size(); i += each) {
    auto step = std::make_shared<ValueWindow>(*windows[i]);
    for (std::size_t k = i + 1; k < std::min(i + each, windows.size()); ++k) {
      extend(*step, *windows[k]);
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

// A damaged file may contain a series twice; it then keeps its first number.
ValueHistory::ValueHistory(const ValueHistoryView& before)
    : series_(before.series),
      has_lines_(before.next_line > 0),
      next_line_(before.next_line),
      lost_lines_(before.lost_lines) {
  for (std::uint32_t i = 0; i < series_.size(); ++i) {
    numbers_.emplace(*series_[i], i);
    series_bytes_ += 2 * series_[i]->memory_bytes();
  }
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    for (const ValueWindowPtr& window : before.tiers[tier]) push(tier, window);
    while (tiers_[tier].windows.size() > kHistoryTierLimits[tier].windows) pop_front(tier);
    if (!before.tiers[tier].empty())
      last_ns_ = std::max(last_ns_, before.tiers[tier].back()->end_ns);
  }
  // Samples that no window of a tier contains yet are in those of the finer tier.
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    const auto& windows = tiers_[tier].windows;
    ValueWindow& open = tiers_[tier].open;
    open.begin_ns = open.end_ns = windows.empty() ? last_ns_ : windows.back()->end_ns;
    if (tier == 0) continue;
    if (windows.empty()) open.begin_ns = open.end_ns = before.oldest_ns();
    for (const ValueWindowPtr& finer : before.tiers[tier - 1]) {
      if (windows.empty() || finer->end_ns > windows.back()->end_ns) add(tier, *finer);
    }
  }
  for (const ValueLinePtr& line : before.lines) add_line(lines_, line);
  for (const ValueLinePtr& line : before.phases) add_line(phases_, line);
}

void ValueHistory::note(const ValueSample& sample) {
  if (sample.time_ns <= last_ns_) return;
  view_ = nullptr;
  const bool is_first = last_ns_ == 0;
  last_ns_ = sample.time_ns;
  note_lines(sample.lines);
  ValueWindow row{.begin_ns = sample.time_ns, .end_ns = sample.time_ns, .last = row_of(sample)};
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    ValueWindow& open = tiers_[tier].open;
    if (is_first) open.begin_ns = open.end_ns = sample.time_ns;
    const std::uint64_t width = kHistoryTierLimits[tier].width_ns;
    // The first sample is a window of its own, in the finest tier; later the one that begins a new
    // width ends the window.
    const bool is_over = is_first ? tier == 0 : sample.time_ns / width != open.begin_ns / width;
    add(tier, row);
    if (is_over) close(tier);
  }
}

// Returns the numbers in the order of series; adds new series.
std::vector<double> ValueHistory::row_of(const ValueSample& sample) {
  std::vector<double> row(series_.size(), kUnknown);
  refused_ = 0;
  for (const auto& [series, number] : sample.numbers) {
    const auto known = numbers_.find(series);
    if (known != numbers_.end()) {
      row[known->second] = number;
    } else if (series_.size() < kMaxSeries) {
      numbers_.emplace(series, static_cast<std::uint32_t>(series_.size()));
      series_.push_back(std::make_shared<const ValueSeries>(series));
      series_bytes_ += 2 * series.memory_bytes();
      row.push_back(number);
    } else {
      ++refused_;
    }
  }
  return row;
}

void ValueHistory::add(int tier, const ValueWindow& narrower) {
  Tier& into = tiers_[tier];
  if (into.has_samples) {
    extend(into.open, narrower);
  } else {
    const std::uint64_t begin_ns = into.open.begin_ns;
    into.open = narrower;
    into.open.begin_ns = begin_ns;
    into.has_samples = true;
  }
}

void ValueHistory::close(int tier) {
  Tier& of = tiers_[tier];
  const std::uint64_t end_ns = of.open.end_ns;
  push(tier, std::make_shared<const ValueWindow>(std::move(of.open)));
  of.open = {.begin_ns = end_ns, .end_ns = end_ns};
  of.has_samples = false;
  while (of.windows.size() > kHistoryTierLimits[tier].windows) pop_front(tier);
}

void ValueHistory::end() {
  view_ = nullptr;
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    if (tiers_[tier].has_samples) close(tier);
  }
}

void ValueHistory::push(int tier, ValueWindowPtr window) {
  tiers_[tier].bytes += window->memory_bytes();
  tiers_[tier].windows.push_back(std::move(window));
}

void ValueHistory::pop_front(int tier) {
  tiers_[tier].bytes -= tiers_[tier].windows.front()->memory_bytes();
  tiers_[tier].windows.pop_front();
}

// A line that is still being written is waited for once. Lines that the program has overwritten are
// lost.
void ValueHistory::note_lines(const std::vector<ValueLine>& lines) {
  if (lines.empty()) return;
  if (!has_lines_) next_line_ = lines.front().number;
  has_lines_ = true;
  for (const ValueLine& line : lines) {
    if (line.number < next_line_) continue;
    if (line.number > next_line_ && &line != &lines.front() && waited_for_ != next_line_) {
      waited_for_ = next_line_;
      return;
    }
    lost_lines_ += line.number - next_line_;
    next_line_ = line.number + 1;
    const bool is_of_phase =
        line.kind == ValueLine::Kind::kPhaseBegins || line.kind == ValueLine::Kind::kPhaseEnds;
    add_line(is_of_phase ? phases_ : lines_, std::make_shared<const ValueLine>(line));
  }
}

void ValueHistory::add_line(Lines& lines, ValueLinePtr line) {
  line_bytes_ += bytes_of(*line);
  lines.push_back(std::move(line));
  if (lines.size() > kMaxLines) pop_line(lines);
}

void ValueHistory::pop_line(Lines& lines) {
  line_bytes_ -= bytes_of(*lines.front());
  lines.pop_front();
}

ValueHistoryViewPtr ValueHistory::view() const {
  if (empty()) return nullptr;
  if (view_ != nullptr) return view_;
  auto view = std::make_shared<ValueHistoryView>();
  view->series = series_;
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    view->tiers[tier].assign(tiers_[tier].windows.begin(), tiers_[tier].windows.end());
  }
  view->unfinished = tiers_[0].has_samples;
  if (view->unfinished) {
    view->tiers[0].push_back(std::make_shared<const ValueWindow>(tiers_[0].open));
  }
  view->lines.assign(lines_.begin(), lines_.end());
  view->phases.assign(phases_.begin(), phases_.end());
  view->refused = refused_;
  view->lost_lines = lost_lines_;
  view->next_line = next_line_;
  view_ = view;
  return view_;
}

std::size_t ValueHistory::memory_bytes() const {
  std::size_t bytes = line_bytes_ + series_bytes_;
  for (const Tier& tier : tiers_) bytes += tier.bytes + tier.open.memory_bytes();
  return bytes;
}

bool ValueHistory::evict_oldest() {
  view_ = nullptr;
  const auto most = std::max_element(
      tiers_.begin(), tiers_.end(), [](const Tier& a, const Tier& b) { return a.bytes < b.bytes; });
  Lines& lines = lines_.size() > phases_.size() ? lines_ : phases_;
  if (most->bytes >= line_bytes_ && !most->windows.empty()) {
    pop_front(static_cast<int>(most - tiers_.begin()));
  } else if (!lines.empty()) {
    pop_line(lines);
  } else {
    return false;
  }
  return true;
}

}  // namespace memprofd
