// SPDX-License-Identifier: Apache-2.0
#include "daemon/rules/memory_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

TEST(MemoryRule, AFileSaysWhatIsLimitedAndOfWhat) {
  const TempDir dir;
  const auto rules = read_rules(dir.write("rules.yaml",
                                          "rules:\n"
                                          "  - max-live: 64MiB\n"
                                          "    of: 'Cache\\.|a=b'\n"
                                          "    program: 'shop-*'\n"
                                          "    name: cache\n"
                                          "    snapshot: true\n"
                                          "  - max-allocated: 1GiB\n"
                                          "    per: 1m\n"
                                          "    module: Http\n"
                                          "  - max-growth: 0\n"
                                          "  - max-lifetime: 30s\n"
                                          "    of: Request\\.make\n"
                                          "  - max-age: 10m\n"
                                          "  - max-peak: 0\n"));
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->size(), 6u);
  const MemoryRule& cache = (*rules)[0];
  EXPECT_EQ(cache.name, "cache");
  EXPECT_TRUE(cache.snapshot);
  EXPECT_EQ(rule_text(cache, true), "live <= 64.0 MiB of Cache\\.|a=b");
  EXPECT_EQ(rule_text(cache, false), "live at the end <= 64.0 MiB of Cache\\.|a=b");
  EXPECT_TRUE(is_of_program(cache, "shop-web"));
  EXPECT_FALSE(is_of_program(cache, "blog"));
  EXPECT_EQ((*rules)[1].name, "allocated <= 1.00 GiB per 1.0 min of module Http");
  EXPECT_TRUE(is_of_program((*rules)[1], "blog"));
  EXPECT_EQ(rule_text((*rules)[2], true), "growth <= 0 B");
  EXPECT_EQ(rule_text((*rules)[3], true), "lifetime of 99 % <= 30.0 s of Request\\.make");
  EXPECT_EQ(rule_text((*rules)[4], true), "age <= 10.0 min");
  EXPECT_EQ(rule_text((*rules)[5], true), "live at the peak <= 0 B");
}

TEST(MemoryRule, AFileThatMakesNoSenseIsRefusedWithItsLine) {
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
      {"rules:\n  - max-live: 1MiB\n    per: 1m\n", "line 2: unexpected per"},
      {"rules:\n  - max-growth: 1MiB\n    per: 0\n", "line 3: per must be above 0"},
      {"rules:\n  - max-age: 5\n", "line 2: rule max-age 5: "},
      {"rules:\n  - max-live: 1MiB\n    module: cache.ml\n", "line 3: \"cache.ml\" is not"},
      {"rules:\n  - max-live: 1MiB\n    name: ''\n", "line 3: name must be"},
      {"rules:\n  - max-live: 1MiB\n    snapshot: perhaps\n", "line 3: "},
      {"rules:\n  - max-live: 1MiB\n  - max-live: 1MiB\n", "line 3: another rule is called live"},
      {"rules: [\n", "line "},
  };
  for (const auto& [text, expected] : cases) {
    const auto rules = read_rules(dir.write("rules.yaml", text));
    EXPECT_EQ(rules.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(rules.status().message()), HasSubstr(expected));
    EXPECT_THAT(std::string(rules.status().message()), HasSubstr("rules.yaml: "));
  }
  EXPECT_THAT(std::string(read_rules(dir.path("none")).status().message()),
              HasSubstr("cannot be read"));
  std::string many = "rules:\n";
  for (std::size_t i = 0; i <= kMaxRules; ++i) absl::StrAppend(&many, "  - max-live: ", i, "\n");
  EXPECT_THAT(std::string(read_rules(dir.write("many", many)).status().message()),
              HasSubstr("more than 200 rules"));
}

}  // namespace
}  // namespace memprofd
