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
                                  .max_allocated = {"Debug=0"}});
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->size(), 4u);
  EXPECT_EQ(rule_text((*rules)[0]), "live at the end <= 64.0 MiB");
  EXPECT_EQ(rule_text((*rules)[1]), "live at the end <= 1.00 MiB of Cache\\.");
  EXPECT_EQ(rule_text((*rules)[2]), "live at the peak <= 2.00 KiB of a=b");
  EXPECT_EQ(rule_text((*rules)[3]), "allocated <= 0 B of Debug");
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
  EXPECT_EQ(rule_text((*rules)[1]), "live at the peak <= 100 MiB");
  EXPECT_EQ(rule_text((*rules)[2]), "live at the end <= 0 B of Cache\\.|a=b");
}

TEST(HeapRules, AFileThatMakesNoSenseIsRefusedWithItsLine) {
  const TempDir dir;
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "is not one list named rules"},
      {"rules: 3\n", "is not one list named rules"},
      {"rules: []\nmore: []\n", "is not one list named rules"},
      {"rules:\n  - 64MiB\n", "line 2: not a rule"},
      {"rules:\n  - of: Cache\n", "line 2: no limit"},
      {"rules:\n  - max-live: 1MiB\n    max-peak: 1MiB\n", "line 3: unexpected max-peak"},
      {"rules:\n  - max-life: 1MiB\n", "line 2: unexpected max-life"},
      {"rules:\n  - max-live: much\n", "line 2: rule max-live much: "},
      {"rules:\n  - max-live: [1]\n", "line 2: "},
      {"rules:\n  - max-live: 1MiB\n    of: '('\n", "bad pattern"},
      {"rules: [\n", "line "},
  };
  for (const auto& [text, expected] : cases) {
    const auto rules = parse_rules({.file = dir.write("rules.yaml", text)});
    EXPECT_EQ(rules.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(rules.status().message()), HasSubstr(expected));
    EXPECT_THAT(std::string(rules.status().message()), HasSubstr("rules.yaml: "));
  }
  EXPECT_THAT(std::string(parse_rules({.file = dir.path("none")}).status().message()),
              HasSubstr("cannot be read"));
}

TEST(HeapRules, NonsenseIsRefused) {
  const TempDir dir;
  const std::vector<std::pair<RuleOptions, const char*>> cases = {
      {{}, "no rule is given"},
      {{.max_live = {"much"}}, "rule much: "},
      {{.max_live = {"Cache="}}, "write SIZE, or PATTERN=SIZE"},
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
  EXPECT_DOUBLE_EQ((*rules)[0].limit_bytes, 120);
  EXPECT_DOUBLE_EQ((*rules)[0].limit_stderr_bytes, 12);
  EXPECT_DOUBLE_EQ((*rules)[1].limit_bytes, 1200);
}

TEST(HeapRules, OneBlockThatIsKnownIsExact) {
  pb::Estimate measured;
  measured.set_bytes(1 << 20);
  EXPECT_DOUBLE_EQ(sure_lower_bytes(measured, 1e-4), 1 << 20);
}

TEST(HeapRules, ResultsAreEscaped) {
  RuleResult result{.rule = {.pattern = "a<b|\"c&d\""}, .broken = true};
  result.largest_site = "f|g";
  const std::string xml = results_junit({result}, "p<q");
  EXPECT_THAT(xml, HasSubstr("tests=\"1\" failures=\"1\""));
  EXPECT_THAT(xml, HasSubstr("a&lt;b|&quot;c&amp;d&quot;"));
  EXPECT_THAT(xml, HasSubstr("classname=\"p&lt;q\""));
  EXPECT_THAT(results_markdown({result}, "p"), HasSubstr("a<b\\|\"c&d\""));
  EXPECT_THAT(results_markdown({result}, "p"), HasSubstr("f\\|g"));
}

}  // namespace
}  // namespace memprofd::ctl
