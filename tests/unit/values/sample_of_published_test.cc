// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/sample_of_published.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

namespace memprofd {
namespace {

constexpr std::uint64_t kNow = 100'000'000'000;

PublishedValue value_of(std::string name, Value value) {
  PublishedValue one{.kind = PublishedValue::Kind::kValue, .name = std::move(name)};
  one.source = MEMPROF_VALUE_OCAML;
  one.value = std::move(value);
  return one;
}

std::map<std::string, std::map<ValueQuantity, double>> numbers_of(const Publication& report) {
  std::map<std::string, std::map<ValueQuantity, double>> numbers;
  for (const auto& [series, number] : sample_of(report, kNow).numbers) {
    numbers[series.full_name()][series.quantity] = number;
  }
  return numbers;
}

TEST(SampleOfReport, HasTheNumbersOfEachKind) {
  Publication report;
  report.all.push_back({.kind = PublishedValue::Kind::kPoint, .name = "point", .hits = -7});
  report.all.push_back(
      {.kind = PublishedValue::Kind::kPhase, .name = "phase", .starts = 3, .stops = 1});
  report.all.back().seconds = 2.5;
  report.all.push_back(value_of("int", {.kind = ValueKind::kInteger, .integer = 12}));
  report.all.push_back(value_of("float", {.kind = ValueKind::kFloat, .number = 0.5}));
  report.all.push_back(value_of("none", {.kind = ValueKind::kFloat, .number = NAN}));
  report.all.push_back(value_of("queue", {.kind = ValueKind::kQueue, .size = 9}));
  report.all.push_back(value_of("unread", {}));
  Value table{.kind = ValueKind::kTable, .size = 5, .buckets = 16, .empty_buckets = 12};
  table.chains_counted = true;
  table.longest_chain = 2;
  report.all.push_back(
      value_of("held", {.kind = ValueKind::kReference, .size = 1, .fields = {table}}));
  report.all.push_back(value_of("tag", {.kind = ValueKind::kTag, .size = 4, .bytes = 640}));
  report.all.back().kind = PublishedValue::Kind::kTag;
  const auto numbers = numbers_of(report);
  using Q = ValueQuantity;
  using Numbers = std::map<Q, double>;
  EXPECT_EQ(numbers.at("point"), (Numbers{{Q::kHits, -7}}));
  EXPECT_EQ(numbers.at("phase"), (Numbers{{Q::kSeconds, 2.5}, {Q::kStops, 1}, {Q::kRunning, 2}}));
  EXPECT_EQ(numbers.at("int"), (Numbers{{Q::kNumber, 12}}));
  EXPECT_EQ(numbers.at("float"), (Numbers{{Q::kNumber, 0.5}}));
  EXPECT_EQ(numbers.at("queue"), (Numbers{{Q::kSize, 9}}));
  EXPECT_EQ(
      numbers.at("held"),
      (Numbers{{Q::kSize, 5}, {Q::kBuckets, 16}, {Q::kEmptyBuckets, 12}, {Q::kLongestChain, 2}}));
  EXPECT_EQ(numbers.at("tag"), (Numbers{{Q::kSize, 4}, {Q::kBytes, 640}}));
  EXPECT_FALSE(numbers.contains("none"));
  EXPECT_FALSE(numbers.contains("unread"));
}

TEST(SampleOfReport, LeavesOutWhatIsNotOfNow) {
  Publication report;
  report.all.push_back({.kind = PublishedValue::Kind::kPoint, .name = "torn", .hits = 1});
  report.all.back().is_torn = true;
  report.all.push_back({.kind = PublishedValue::Kind::kPoint, .name = "off", .hits = 1});
  report.all.back().control = MEMPROF_CONTROL_OFF;
  for (const auto& [name, seconds_ago] :
       std::map<std::string, std::uint64_t>{{"young", 5}, {"old", 50}}) {
    PublishedValue one = value_of(name, {.kind = ValueKind::kInteger, .integer = 1});
    one.source = MEMPROF_VALUE_FUNCTION;
    one.period_ms = 1000;
    one.changed_ns = kNow - seconds_ago * 1'000'000'000;
    report.all.push_back(one);
    one.name += " but rare";
    one.period_ms = 60'000;
    report.all.push_back(one);
  }
  const auto numbers = numbers_of(report);
  EXPECT_EQ(numbers.size(), 3u);
  EXPECT_FALSE(numbers.contains("old"));
  EXPECT_TRUE(numbers.contains("old but rare"));
}

TEST(SampleOfReport, ARequestHasNoNumbers) {
  Publication report;
  report.all.push_back({.kind = PublishedValue::Kind::kRequest, .name = "drop-cache"});
  EXPECT_TRUE(numbers_of(report).empty());
}

TEST(SampleOfReport, LinesHaveTheirTimes) {
  Publication report;
  report.lines.push_back({.number = 7, .seconds_ago = 2, .kind = MEMPROF_LOG_PHASE_ENTER});
  report.lines.push_back({.number = 8, .seconds_ago = 1e9, .text = "old"});
  const ValueSample sample = sample_of(report, kNow);
  ASSERT_EQ(sample.lines.size(), 2u);
  EXPECT_EQ(sample.lines[0].kind, ValueLine::Kind::kPhaseBegins);
  EXPECT_EQ(sample.lines[0].time_ns, kNow - 2'000'000'000);
  EXPECT_EQ(sample.lines[1].kind, ValueLine::Kind::kText);
  EXPECT_EQ(sample.lines[1].time_ns, 0u);
}

TEST(SampleOfReport, ValuesOfModulesHaveTheirNames) {
  NamedValue table{.place = 7, .module = "Cache", .field = 3};
  table.value = {.kind = ValueKind::kTable, .size = 5, .buckets = 16};
  NamedValue changing{.place = 7, .module = "Cache", .field = 4};
  changing.value = {.kind = ValueKind::kQueue, .size = 5, .is_changing = true};
  ValueSample sample;
  NamedValue other{.place = 8, .module = "Queue", .field = 3};
  other.value = {.kind = ValueKind::kInteger, .integer = 5};
  add_values({table, changing, other}, {{7, 3, "Cache.table"}, {7, 4, "Cache[4]"}}, sample);
  ASSERT_EQ(sample.numbers.size(), 2u);
  EXPECT_EQ(sample.numbers[0].first.kind, ValueSeries::Kind::kValue);
  EXPECT_EQ(sample.numbers[0].first.full_name(), "Cache.table");
  EXPECT_EQ(sample.numbers[0].second, 5);
  EXPECT_EQ(sample.numbers[1].first.quantity, ValueQuantity::kBuckets);
}

}  // namespace
}  // namespace memprofd
