// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/selection_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace memprofd::ctl {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kNow = 1'700'000'000 * kSecond + 123;  // 2023-11-14 22:13:20 UTC
constexpr std::int64_t kMidnight = 1'699'920'000 * kSecond;

std::string refusal(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  return std::string(status.message());
}

std::int64_t begin_of(const std::string& range) {
  const auto parsed = parse_range(range, kNow);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->begin_unix_ns() : -1;
}

TEST(ParseTarget, DigitsArePidsAllElseAreFiles) {
  EXPECT_EQ(parse_target("")->pid, 0);
  EXPECT_EQ(parse_target("")->file, "");
  EXPECT_EQ(parse_target("4242")->pid, 4242);
  EXPECT_EQ(parse_target("4242")->file, "");
  for (const char* file : {"trace.ctf", "./4242", "-1", "42x", "/tmp/a@b", " 42"}) {
    EXPECT_EQ(parse_target(file)->file, file);
    EXPECT_EQ(parse_target(file)->pid, 0);
  }
}

TEST(ParseTarget, PidsArePositiveAndFit) {
  EXPECT_EQ(parse_target("2147483647")->pid, std::numeric_limits<int>::max());
  for (const char* pid : {"0", "000", "2147483648", "99999999999999999999"}) {
    EXPECT_THAT(refusal(parse_target(pid).status()), HasSubstr("bad pid ")) << pid;
  }
}

TEST(ParseRange, EitherEndMayBeEmpty) {
  EXPECT_EQ(parse_range("..", kNow)->ByteSizeLong(), 0u);
  EXPECT_EQ(begin_of("-10m.."), -600 * kSecond);
  EXPECT_EQ(parse_range("-10m..", kNow)->end_unix_ns(), 0);
  EXPECT_EQ(parse_range("..-5m", kNow)->begin_unix_ns(), 0);
  EXPECT_EQ(parse_range("..-5m", kNow)->end_unix_ns(), -300 * kSecond);
}

TEST(ParseRange, EachFormOfTime) {
  EXPECT_EQ(begin_of("-0..-0"), -1) << "0 would be the attach";
  EXPECT_EQ(begin_of("-1.5h.."), -5400 * kSecond);
  EXPECT_EQ(begin_of("14:05.."), kMidnight + (14 * 3600 + 5 * 60) * kSecond);
  EXPECT_EQ(begin_of("14:05:30.."), kMidnight + (14 * 3600 + 5 * 60 + 30) * kSecond);
  EXPECT_EQ(begin_of("00:00.."), kMidnight);
  EXPECT_EQ(begin_of("2023-11-14T22:13:20Z.."), 1'700'000'000 * kSecond);
  EXPECT_EQ(begin_of("2023-11-14T22:13Z.."), 1'699'999'980 * kSecond);
  EXPECT_EQ(begin_of("@1700000000.."), 1'700'000'000 * kSecond);
  EXPECT_EQ(begin_of("@0.5.."), kSecond / 2);
}

TEST(ParseRange, TimesAgoMayBeLong) {
  EXPECT_EQ(begin_of("-99.9d.."), -8'631'360 * kSecond);
  EXPECT_EQ(parse_range("..-25000d", kNow)->end_unix_ns(), -2'160'000'000 * kSecond);
}

TEST(ParseRange, RefusesWhatIsNoTime) {
  for (const char* time : {"-",
                           "--5m",
                           "-5 m",
                           "5m",
                           "14",
                           "14:",
                           "14:60",
                           "25:00",
                           "14:05Z",
                           "14:05x",
                           "now",
                           "2023-11-14",
                           "2023-13-01T00:00Z",
                           "2023-11-14T22:13:20",
                           "9999-01-01T00:00Z",
                           "1969-12-31T23:59:59Z",
                           "@",
                           "@x",
                           "@-1",
                           "@nan",
                           "@inf",
                           "@1e300",
                           "@9223372037"}) {
    refusal(parse_range(std::string(time) + "..", kNow).status());
    refusal(parse_range(".." + std::string(time), kNow).status());
  }
  EXPECT_EQ(refusal(parse_range("noon..", kNow).status()),
            "bad time \"noon\": give -10m, 14:05, 14:05:30 or 2026-01-31T14:05:30Z (UTC)");
}

TEST(ParseRange, NeedsDots) {
  for (const char* text : {"", "-5m", ".", "-10m.-5m", "-10m -5m"}) {
    EXPECT_THAT(refusal(parse_range(text, kNow).status()), HasSubstr("give FROM..TO")) << text;
  }
  refusal(parse_range("-10m...-5m", kNow).status());
  refusal(parse_range("-10m..-5m..", kNow).status());
}

TEST(ParseSelection, TargetAndRange) {
  const auto both = parse_selection("4242@-10m..-5m", kNow);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->target.pid, 4242);
  EXPECT_EQ(both->range.begin_unix_ns(), -600 * kSecond);
  EXPECT_EQ(both->range.end_unix_ns(), -300 * kSecond);
  EXPECT_EQ(parse_selection("4242", kNow)->range.ByteSizeLong(), 0u);
  const auto range = parse_selection("@-10m..", kNow);
  EXPECT_EQ(range->target.pid, 0);
  EXPECT_EQ(range->target.file, "");
  EXPECT_EQ(range->range.begin_unix_ns(), -600 * kSecond);
  EXPECT_EQ(parse_selection("4242@@100..@200", kNow)->range.end_unix_ns(), 200 * kSecond);
  EXPECT_EQ(parse_selection("", kNow)->target.pid, 0);
}

TEST(ParseSelection, FilesMayHaveAnAtAndDots) {
  const std::pair<const char*, const char*> files[] = {
      {"a@b.ctf", "a@b.ctf"},         {"../a.ctf", "../a.ctf"},
      {"../a@b.ctf", "../a@b.ctf"},   {"x@y/../a.ctf", "x@y/../a.ctf"},
      {"../a.ctf@-5m..", "../a.ctf"}, {"/x@y/a.ctf@..-5m", "/x@y/a.ctf"},
  };
  for (const auto& [text, file] : files) {
    const auto selection = parse_selection(text, kNow);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(selection->target.file, file);
    const bool has_range = std::string(text) != file;
    EXPECT_EQ(selection->range.ByteSizeLong() > 0, has_range) << text;
  }
}

TEST(ParseSelection, SaysWhichPartIsBad) {
  EXPECT_THAT(refusal(parse_selection("4242@-10x..", kNow).status()),
              HasSubstr("bad duration \"10x\""));
  EXPECT_THAT(refusal(parse_selection("0@-10m..", kNow).status()), HasSubstr("bad pid 0"));
}

}  // namespace
}  // namespace memprofd::ctl
