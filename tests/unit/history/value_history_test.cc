// SPDX-License-Identifier: Apache-2.0
#include "daemon/history/value_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kBegin = 1'700'000'000 * kSecond + kSecond / 3;

ValueSeries hits(std::string name) {
  return {
      .kind = ValueSeries::Kind::kPoint, .quantity = ValueQuantity::kHits, .name = std::move(name)};
}
ValueSeries number(std::string name) {
  return {.kind = ValueSeries::Kind::kValue,
          .quantity = ValueQuantity::kNumber,
          .name = std::move(name)};
}

// Three hits a second; a queue that is 7, and 1000 at one moment.
ValueSample sample_at(std::uint64_t second, std::uint64_t spike = 0) {
  return {.time_ns = kBegin + second * kSecond,
          .numbers = {{hits("requests"), 3.0 * static_cast<double>(second)},
                      {number("queue"), second == spike ? 1000.0 : 7.0}}};
}

void expect_ascending(const ValueHistoryView::Tier& steps) {
  for (std::size_t i = 1; i < steps.size(); ++i) {
    EXPECT_GE(steps[i]->begin_ns, steps[i - 1]->begin_ns);
    EXPECT_GT(steps[i]->end_ns, steps[i - 1]->end_ns);
  }
}

TEST(ValueHistory, HasADayAndItsSpikes) {
  constexpr std::uint64_t kDay = 86'400, kSpike = 30'000;
  ValueHistory history;
  for (std::uint64_t second = 0; second <= kDay; ++second) history.note(sample_at(second, kSpike));
  const ValueHistoryViewPtr view = history.view();
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    EXPECT_LE(view->tiers[tier].size(), kHistoryTierLimits[tier].windows + 1);
  }
  const auto steps = view->steps(kBegin, kBegin + kDay * kSecond, 300);
  EXPECT_GT(steps.size(), 100u);
  EXPECT_LE(steps.size(), 300u);
  expect_ascending(steps);
  EXPECT_EQ(steps.back()->last, (std::vector<double>{3.0 * kDay, 7}));
  for (const ValueWindowPtr& step : steps) {
    EXPECT_DOUBLE_EQ(step->last[0], 3.0 * std::round((step->end_ns - kBegin) / 1e9));
    const bool has_spike =
        step->begin_ns < kBegin + kSpike * kSecond && kBegin + kSpike * kSecond <= step->end_ns;
    EXPECT_EQ(step->high.empty() ? step->last[1] : step->high[1], has_spike ? 1000 : 7);
  }
  const auto minute = view->steps(kBegin + (kDay - 60) * kSecond, kBegin + kDay * kSecond, 300);
  EXPECT_EQ(minute.size(), 60u);
  EXPECT_LT(history.memory_bytes(), 400'000u);
}

TEST(ValueHistory, ReportsTheLatestMoment) {
  ValueHistory history;
  EXPECT_EQ(history.view(), nullptr);
  history.note(sample_at(0));
  ASSERT_NE(history.view(), nullptr);
  history.note(sample_at(1));
  const auto steps = history.view()->steps(0, kBegin + kSecond + 1, 300);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back()->last[0], 3);
  EXPECT_TRUE(history.view()->steps(0, kBegin - 1, 300).empty());
}

TEST(ValueHistory, AMissingValueHasNoNumber) {
  ValueHistory history;
  for (int second = 0; second < 10; ++second) history.note(sample_at(second));
  for (int second = 10; second < 20; ++second) {
    history.note({.time_ns = kBegin + second * kSecond, .numbers = {{number("late"), 1}}});
  }
  const auto steps = history.view()->steps(kBegin, kBegin + 20 * kSecond, 300);
  EXPECT_EQ(steps.front()->last.size(), 2u);
  EXPECT_TRUE(std::isnan(steps.back()->last[0]));
  EXPECT_EQ(steps.back()->last[2], 1);
}

TEST(ValueHistory, TimeNeverGoesBack) {
  ValueHistory history;
  history.note(sample_at(5));
  history.note(sample_at(4));
  history.note(sample_at(5));
  EXPECT_EQ(history.view()->steps(0, kBegin + 9 * kSecond, 9).size(), 1u);
}

TEST(ValueHistory, GivesUpTheOldestForMemory) {
  ValueHistory history;
  for (int second = 0; second < 20'000; ++second) {
    history.note(sample_at(second));
    while (history.memory_bytes() > 20'000 && history.evict_oldest()) {
    }
    ASSERT_LE(history.memory_bytes(), 20'000u);
  }
  const auto steps = history.view()->steps(kBegin, kBegin + 20'000 * kSecond, 300);
  ASSERT_GT(steps.size(), 20u);
  expect_ascending(steps);
  EXPECT_EQ(steps.back()->last[0], 3.0 * 19'999);
  while (history.evict_oldest()) {
  }
  EXPECT_LT(history.memory_bytes(), 5000u);
}

// A memprofd that is started again: as if it had never ended.
TEST(ValueHistory, ContinuesWhereAnotherOneEnded) {
  ValueHistory whole, before;
  for (int second = 0; second < 1234; ++second) {
    whole.note(sample_at(second, 1230));
    before.note(sample_at(second, 1230));
  }
  before.end();
  ValueHistory after(*before.view());
  for (int second = 1234; second < 5000; ++second) {
    whole.note(sample_at(second));
    after.note(sample_at(second));
  }
  EXPECT_EQ(after.view()->series.size(), 2u);
  for (const std::size_t points : {10u, 80u, 300u}) {
    const auto a = whole.view()->steps(kBegin, kBegin + 5000 * kSecond, points);
    const auto b = after.view()->steps(kBegin, kBegin + 5000 * kSecond, points);
    EXPECT_NEAR(static_cast<double>(a.size()), static_cast<double>(b.size()), 3);
    EXPECT_EQ(a.back()->last, b.back()->last);
    const auto has_spike = [](const ValueWindowPtr& step) {
      return !step->high.empty() && step->high[1] == 1000;
    };
    EXPECT_GE(std::count_if(b.begin(), b.end(), has_spike), 1) << points;
  }
}

TEST(ValueHistory, IsBoundedWhateverAProgramPublishes) {
  ValueHistory history;
  ValueSample sample{.time_ns = kBegin};
  for (std::size_t i = 0; i < ValueHistory::kMaxSeries + 100; ++i) {
    sample.numbers.emplace_back(number(absl::StrCat("n", i)), 1);
  }
  history.note(sample);
  EXPECT_EQ(history.view()->series.size(), ValueHistory::kMaxSeries);
  EXPECT_EQ(history.view()->refused, 100u);
  std::uint64_t next = 0;
  for (int second = 1; second < 100; ++second) {
    ValueSample lines{.time_ns = kBegin + second * kSecond};
    for (int i = 0; i < 256; ++i) {
      lines.lines.push_back({.number = next++, .text = std::string(200, 'x')});
    }
    history.note(lines);
  }
  EXPECT_EQ(history.view()->lines.size(), ValueHistory::kMaxLines);
  EXPECT_EQ(history.view()->lines.back()->number, next - 1);
  EXPECT_EQ(history.view()->lost_lines, 0u);
}

std::vector<std::uint64_t> numbers_of(const ValueHistory& history) {
  std::vector<std::uint64_t> numbers;
  for (const ValueLinePtr& line : history.view()->lines) numbers.push_back(line->number);
  return numbers;
}

ValueSample lines_at(int second, const std::vector<std::uint64_t>& numbers) {
  ValueSample sample{.time_ns = kBegin + second * kSecond};
  for (const std::uint64_t n : numbers) sample.lines.push_back({.number = n, .text = "line"});
  return sample;
}

TEST(ValueHistory, CountsLinesThatWereGone) {
  ValueHistory history;
  history.note(lines_at(1, {100, 101}));  // those before it came are no loss
  history.note(lines_at(2, {101, 103}));  // 102 is being written
  EXPECT_EQ(numbers_of(history), (std::vector<std::uint64_t>{100, 101}));
  history.note(lines_at(3, {101, 102, 103}));
  EXPECT_EQ(numbers_of(history), (std::vector<std::uint64_t>{100, 101, 102, 103}));
  EXPECT_EQ(history.view()->lost_lines, 0u);
  history.note(lines_at(4, {110}));
  EXPECT_EQ(history.view()->lost_lines, 6u);
  history.note(lines_at(5, {110, 112}));
  history.note(lines_at(6, {110, 112}));  // never to be whole
  EXPECT_EQ(numbers_of(history).back(), 112u);
  EXPECT_EQ(history.view()->lost_lines, 7u);
}

}  // namespace
}  // namespace memprofd
