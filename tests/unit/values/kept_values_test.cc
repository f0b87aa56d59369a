// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/kept_values.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace memprofd {
namespace {

std::vector<std::string> names_of(const KeptValues& kept) {
  std::vector<std::string> names;
  for (const ModuleField& one : kept.all()) names.push_back(one.name);
  return names;
}

TEST(KeptValues, EachIsThereOnce) {
  KeptValues kept;
  EXPECT_TRUE(kept.empty());
  EXPECT_TRUE(kept.add({{0, 3, "Cache[3]"}, {1, 3, "Queue[3]"}}).ok());
  EXPECT_TRUE(kept.add({{0, 3, "Cache[3]"}, {0, 4, "Cache[4]"}}).ok());
  EXPECT_EQ(names_of(kept), (std::vector<std::string>{"Cache[3]", "Queue[3]", "Cache[4]"}));
  kept.forget([](const std::string& name) { return name.starts_with("Cache"); });
  EXPECT_EQ(names_of(kept), std::vector<std::string>{"Queue[3]"});
}

TEST(KeptValues, ThereIsACap) {
  std::vector<ModuleField> fields;
  for (std::uint32_t i = 0; i < KeptValues::kMax; ++i) fields.push_back({0, i, "M"});
  KeptValues kept;
  EXPECT_TRUE(kept.add(fields).ok());
  EXPECT_TRUE(kept.add(fields).ok()) << "they are there already";
  EXPECT_EQ(kept.add({{1, 0, "N"}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(kept.all().size(), KeptValues::kMax) << "none is added";
}

}  // namespace
}  // namespace memprofd
