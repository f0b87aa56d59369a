// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/heap_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/temp_dir.h"

namespace memprofd::ctl {
namespace {

using ::testing::HasSubstr;

TEST(HeapRules, RulesAreSizesWithOrWithoutAPattern) {
  const auto rules = parse_rules({.max_live = {"64MiB", "Cache\\.=1MiB"},
                                  .max_peak = {"a=b=2KiB"},
                                  .max_allocated = {"Debug=0"},
                                  .max_growth = {"0"},
                                  .max_lifetime = {"Request=30s"},
                                  .max_age = {"5m"}});
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->size(), 7u);
  EXPECT_EQ(rule_text((*rules)[0], false), "live at the end <= 64.0 MiB");
  EXPECT_EQ(rule_text((*rules)[1], false), "live at the end <= 1.00 MiB of Cache\\.");
  EXPECT_EQ(rule_text((*rules)[2], false), "live at the peak <= 2.00 KiB of a=b");
  EXPECT_EQ(rule_text((*rules)[3], false), "allocated <= 0 B of Debug");
  EXPECT_EQ(rule_text((*rules)[4], false), "growth <= 0 B");
  EXPECT_EQ(rule_text((*rules)[5], false), "lifetime of 99 % <= 30.0 s of Request");
  EXPECT_EQ(rule_text((*rules)[6], false), "age <= 5.0 min");
}

TEST(HeapRules, AFileHasRulesToo) {
  const TempDir dir;
  const auto rules = parse_rules({.max_live = {"1MiB"},
                                  .file = dir.write("rules.yaml",
                                                    "rules:\n"
                                                    "  - max-peak: 100MiB\n"
                                                    "  - max-live: 0\n"
                                                    "    of: 'Cache\\.|a=b'\n")});
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->size(), 3u);
  EXPECT_EQ(rule_text((*rules)[1], false), "live at the peak <= 100 MiB");
  EXPECT_EQ(rule_text((*rules)[2], false), "live at the end <= 0 B of Cache\\.|a=b");
}

TEST(HeapRules, NonsenseIsRefused) {
  const TempDir dir;
  const std::vector<std::pair<RuleOptions, const char*>> cases = {
      {{.max_live = {"much"}}, "rule much: "},
      {{.max_live = {"Cache="}}, "write SIZE, or PATTERN=SIZE"},
      {{.max_age = {"Cache=5"}}, "write DURATION, or PATTERN=DURATION"},
      {{.max_peak = {"(=1MiB"}}, "bad pattern"},
      {{.baseline = dir.path("none")}, "cannot be read"},
      {{.baseline = dir.write("text", "text")}, "is not a file of memprofctl run"},
      {{.baseline = dir.write("empty.json", "{}")}, "is not a file of memprofctl run"},
      {{.baseline = dir.write("ok.json", "{\"total\":{}}"), .tolerance = "-1%"}, "-1%"},
  };
  for (const auto& [options, expected] : cases) {
    const auto rules = parse_rules(options);
    EXPECT_EQ(rules.status().code(), absl::StatusCode::kInvalidArgument) << expected;
    EXPECT_THAT(std::string(rules.status().message()), HasSubstr(expected));
  }
}

TEST(HeapRules, ABaselineLimitsLiveAndAllocated) {
  const TempDir dir;
  const auto rules =
      parse_rules({.baseline = dir.write("a.json",
                                         "{\"total\":{\"live\":{\"bytes\":100,\"bytesStderr\":10},"
                                         "\"allocated\":{\"bytes\":1000}},\"ofALaterVersion\":1}"),
                   .tolerance = "20%"});
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->size(), 2u);
  EXPECT_DOUBLE_EQ((*rules)[0].limit, 120);
  EXPECT_DOUBLE_EQ((*rules)[0].limit_stderr, 12);
  EXPECT_DOUBLE_EQ((*rules)[1].limit, 1200);
}

TEST(HeapRules, AssertionsAreResultsToo) {
  AssertionOutcome outcome{
      .assertion = {.name = "session"}, .verdict = AssertionVerdict::kViolated, .violating = 3};
  outcome.holders.push_back({.path = "global Cache, field 2", .values = 3});
  EXPECT_EQ(results_text({result_of(outcome)}),
            "BROKEN  session is unreachable: 3 values are reachable; 3 by global Cache, field 2\n");
  outcome = {.assertion = {.name = "session"},
             .verdict = AssertionVerdict::kNotChecked,
             .why_not_checked = "reasons"};
  EXPECT_EQ(results_text({result_of(outcome)}),
            "UNKNOWN session is unreachable: not checked: reasons\n");
  EXPECT_THAT(std::string(no_rule().message()), HasSubstr("no rule is given"));
}

TEST(HeapRules, ResultsAreEscaped) {
  RuleOutcome outcome{.rule = {.pattern = "a<b|\"c&d\""}, .verdict = RuleVerdict::kBroken};
  outcome.largest_site = "f|g";
  const CheckResult result = result_of(outcome);
  const std::string xml = results_junit({result}, "p<q");
  EXPECT_THAT(xml, HasSubstr("tests=\"1\" failures=\"1\""));
  EXPECT_THAT(xml, HasSubstr("errors=\"0\""));
  EXPECT_THAT(xml, HasSubstr("a&lt;b|&quot;c&amp;d&quot;"));
  EXPECT_THAT(xml, HasSubstr("classname=\"p&lt;q\""));
  EXPECT_THAT(results_markdown({result}, "p"), HasSubstr("a<b\\|\"c&d\""));
  EXPECT_THAT(results_markdown({result}, "p"), HasSubstr("f\\|g"));
}

}  // namespace
}  // namespace memprofd::ctl
