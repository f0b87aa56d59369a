// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/heap_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "daemon/util/estimate.h"
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

// A program that has exactly what is allowed breaks the limit in at most one of a thousand runs,
// and one that has a quarter more and enough samples nearly always does.
TEST(HeapRules, ChanceSeldomBreaksALimit) {
  constexpr double kRate = 1e-4;
  constexpr int kRuns = 100'000;
  std::mt19937_64 random(20261128);
  const auto share_broken = [&](double words, double limit_words) {
    std::poisson_distribution<int> samples(words * kRate);
    int broken = 0;
    for (int run = 0; run < kRuns; ++run) {
      Estimate estimate;
      estimate.add(static_cast<std::uint64_t>(samples(random)), weight_of_word(kRate));
      pb::Estimate measured;
      measured.set_bytes(estimate.bytes());
      measured.set_bytes_stderr(estimate.stderr_bytes());
      if (sure_lower_bytes(measured, kRate) > limit_words * kBytesPerWord) ++broken;
    }
    return static_cast<double>(broken) / kRuns;
  };
  // The sampling is binomial in truth, which has less chance than this.
  for (const double samples : {0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0, 1000.0}) {
    const double words = samples / kRate;
    EXPECT_LE(share_broken(words, words), 1e-3 + 4 * std::sqrt(1e-3 / kRuns)) << samples;
  }
  EXPECT_GT(share_broken(1000 / kRate, 800 / kRate), 0.99);
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
