// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/history_merge.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

namespace memprofd {
namespace {

constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();

// Sums of deaths by code, in the order of codes.
class DeathSum {
 public:
  void add(std::span<const DeathCounts::Entry> deaths) {
    for (const DeathCounts::Entry& death : deaths) {
      n_[death.code] += death.n;
      used_[death.code / 64] |= std::uint64_t{1} << death.code % 64;
    }
  }
  // Valid until the next call; the sum restarts.
  std::span<const DeathCounts::Entry> take() {
    entries_.clear();
    if ((used_[0] | used_[1] | used_[2] | used_[3]) == 0) return entries_;
    for (std::size_t word = 0; word < used_.size(); ++word) {
      for (; used_[word] != 0; used_[word] &= used_[word] - 1) {
        const auto code = static_cast<std::uint8_t>(word * 64 + std::countr_zero(used_[word]));
        entries_.push_back({code, n_[code]});
        n_[code] = 0;
      }
    }
    return entries_;
  }

 private:
  std::array<std::uint64_t, 256> n_{};
  std::array<std::uint64_t, 4> used_{};
  std::vector<DeathCounts::Entry> entries_;
};

// Merges several runs of cells, ordered by class, into one.
class PartMerger {
 public:
  // only: see sum_windows().
  PartMerger(std::vector<WindowPartReader> readers, std::span<const ClassId> only)
      : readers_(std::move(readers)), only_(only) {
    heads_.resize(readers_.size());
    classes_.resize(readers_.size());
    for (std::size_t i = 0; i < readers_.size(); ++i) read(i, only_.empty() ? 0 : only_[0].value());
  }

  // Returns null at the end.
  const WindowCell* next() {
    const std::uint32_t first = only_.empty() ? lowest() : next_wanted();
    if (first == kEnd) return nullptr;
    sum_ = {.alloc_class = ClassId(first)};
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      if (classes_[i] != first) continue;
      const WindowCell& cell = *heads_[i];
      sum_.allocated += cell.allocated;
      sum_.promoted += cell.promoted;
      sum_.never_followed += cell.never_followed;
      sum_.forgotten += cell.forgotten;
      for (int heap = 0; heap < kHeaps; ++heap) sum_.died[heap] += cell.died[heap];
      deaths_.add(cell.deaths);
      ages_.add(cell.ages);
      if (only_.empty()) read(i, first + 1);
    }
    sum_.deaths = deaths_.take();
    sum_.ages = ages_.take();
    return &sum_;
  }

 private:
  std::uint32_t lowest() const { return *std::min_element(classes_.begin(), classes_.end()); }
  // The next wanted class that any window has.
  std::uint32_t next_wanted() {
    while (next_only_ < only_.size()) {
      const std::uint32_t wanted = only_[next_only_++].value();
      bool any = false;
      for (std::size_t i = 0; i < heads_.size(); ++i) {
        if (classes_[i] < wanted) read(i, wanted);
        any = any || classes_[i] == wanted;
      }
      if (any) return wanted;
    }
    return kEnd;
  }
  // Continues with cells from this class on.
  void read(std::size_t i, std::uint32_t from) {
    heads_[i] = readers_[i].next_from(ClassId(from));
    classes_[i] = heads_[i] == nullptr ? kEnd : heads_[i]->alloc_class.value();
  }

  std::vector<WindowPartReader> readers_;
  std::span<const ClassId> only_;
  std::size_t next_only_ = 0;
  std::vector<const WindowCell*> heads_;  // null: at its end
  std::vector<std::uint32_t> classes_;    // of the heads
  DeathSum deaths_;
  DeathSum ages_;
  WindowCell sum_;
};

std::vector<double> rates_of(std::span<const HistoryWindowPtr> windows) {
  std::vector<double> rates;
  for (const HistoryWindowPtr& window : windows) {
    for (std::size_t part = 0; part < window->parts(); ++part) {
      const double rate = window->rate(part);
      if (std::find(rates.begin(), rates.end(), rate) == rates.end()) rates.push_back(rate);
    }
  }
  return rates;
}

// Calls use(window, part) for each part of that rate.
template <typename Use>
void for_each_part(std::span<const HistoryWindowPtr> windows, double rate, Use use) {
  for (const HistoryWindowPtr& window : windows) {
    for (std::size_t part = 0; part < window->parts(); ++part) {
      if (window->rate(part) == rate) use(*window, part);
    }
  }
}

PartMerger merger(std::span<const HistoryWindowPtr> windows, double rate,
                  const DeathsToRead& deaths, std::span<const ClassId> only = {}) {
  std::vector<WindowPartReader> readers;
  for_each_part(windows, rate, [&](const HistoryWindow& window, std::size_t part) {
    readers.push_back(window.read(part, deaths));
  });
  return PartMerger(std::move(readers), only);
}

LongestBuckets longest_of(std::span<const HistoryWindowPtr> windows, double rate) {
  LongestBuckets longest{};
  for_each_part(windows, rate, [&](const HistoryWindow& window, std::size_t part) {
    for (int heap = 0; heap < kHeaps; ++heap) {
      longest[heap] = std::max(longest[heap], window.longest(part)[heap]);
    }
  });
  return longest;
}

std::uint8_t oldest_of(std::span<const HistoryWindowPtr> windows, double rate) {
  std::uint8_t oldest = 0;
  for_each_part(windows, rate, [&](const HistoryWindow& window, std::size_t part) {
    oldest = std::max(oldest, window.oldest(part));
  });
  return oldest;
}

}  // namespace

void sum_windows(std::span<const HistoryWindowPtr> windows,
                 const std::function<void(const WindowCell&, double)>& use,
                 const DeathsToRead& deaths, std::span<const ClassId> only) {
  for (const double rate : rates_of(windows)) {
    PartMerger cells = merger(windows, rate, deaths, only);
    while (const WindowCell* cell = cells.next()) use(*cell, rate);
  }
}

std::shared_ptr<HistoryWindow> merge_windows(std::span<const HistoryWindowPtr> windows,
                                             std::uint64_t begin_ns, std::uint64_t end_ns) {
  auto result = std::make_shared<HistoryWindow>(begin_ns, end_ns, windows.back()->at_end());
  for (const double rate : rates_of(windows)) {
    result->begin_part(rate, longest_of(windows, rate), oldest_of(windows, rate));
    PartMerger cells = merger(windows, rate, kAllDeaths);
    while (const WindowCell* cell = cells.next()) result->add_cell(*cell);
  }
  result->finish();
  return result;
}

}  // namespace memprofd
