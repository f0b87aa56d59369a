// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/flat_profiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "daemon/util/version.h"
#include "tests/kit/golden.h"
#include "tests/kit/profile_model.h"

namespace memprofd {
namespace {

using nlohmann::json;
using testing::expect_golden;
using testing::ProfileModel;
using testing::run;

// Cache.add is inlined into Cache.insert; Parse.token calls itself.
ProfileModel example() {
  ProfileModel model;
  model.name(0x10, {{"Cache.add", "cache.ml", 10, 2, 9, "server"},
                    {"Cache.insert", "cache.ml", 55, 2, 9, "server"}});
  model.name(0x20, {{"Main.handle", "main.ml", 20, 2, 9, "server"}});
  model.name(0x30, {{.function = "caml_main", .library = "server"}});
  model.name(0x40, {{"Parse.token", "parse.ml", 7, 0, 1, "server"}});
  model.add({0x10, 0x20, 0x30}, 100, 30)
      .counters.promoted.add(40, weight_of_word(ProfileModel::kRate));
  Counters& parse = model.add({0x40, run(2), 0x20, 0x30}, 50).counters;
  parse.deallocated[0].add(45, weight_of_word(ProfileModel::kRate));
  parse.deallocated[1].add(5, weight_of_word(ProfileModel::kRate));
  model.add({}, 5, 1);
  return model;
}

std::string collapsed(const std::vector<TargetProfile>& profiles, Measure measure) {
  const auto text = collapsed_stacks(profiles, measure);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

// ---------------------------------------------------------------- collapsed

TEST(CollapsedTest, OutermostFirstSortedWithoutZeros) {
  const ProfileModel model = example();
  EXPECT_EQ(collapsed({model.profile}, Measure::kAllocated),
            "(unknown) 4000\n"
            "caml_main;Main.handle;Cache.insert;Cache.add 80000\n"
            "caml_main;Main.handle;Parse.token;Parse.token;Parse.token 40000\n");
  EXPECT_EQ(collapsed({model.profile}, Measure::kLive),
            "(unknown) 800\n"
            "caml_main;Main.handle;Cache.insert;Cache.add 24000\n");
}

TEST(CollapsedTest, FoldsRecursionWhenAsked) {
  const ProfileModel model = example();
  const auto text = collapsed_stacks({model.profile}, Measure::kAllocated, Recursion::kFolded);
  EXPECT_EQ(text.value_or(""),
            "(unknown) 4000\n"
            "caml_main;Main.handle;Cache.insert;Cache.add 80000\n"
            "caml_main;Main.handle;Parse.token 40000\n");
}

TEST(CollapsedTest, EveryMeasureThatHasSums) {
  const ProfileModel model = example();
  const auto cache = [&](Measure measure) {
    const std::string text = collapsed({model.profile}, measure);
    const std::size_t at = text.find("Cache.add ");
    return at == text.npos ? 0 : std::stoll(text.substr(at + 10));
  };
  EXPECT_EQ(cache(Measure::kPromoted), 32000);
  EXPECT_EQ(cache(Measure::kSamples), 100);
  EXPECT_EQ(cache(Measure::kAllocatedObjects), 1000);
  EXPECT_EQ(cache(Measure::kLiveObjects), 300);
  const std::string parse = "caml_main;Main.handle;Parse.token;Parse.token;Parse.token ";
  EXPECT_EQ(collapsed({model.profile}, Measure::kDiedYoung), parse + "36000\n");
  EXPECT_EQ(collapsed({model.profile}, Measure::kDiedOld), parse + "4000\n");
  const auto lifetime = collapsed_stacks({model.profile}, Measure::kLifetime);
  EXPECT_EQ(lifetime.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CollapsedTest, NamesCannotMakeFramesOrLines) {
  ProfileModel model;
  model.name(1, {{.function = "a;b"}});
  model.name(2, {{.function = "c\nd 5\xff"}});
  model.name(3, {{.function = ""}});
  model.add({1, 2, 3}, 1);
  EXPECT_EQ(collapsed({model.profile}, Measure::kSamples), "?;c?d 5\xEF\xBF\xBD;a:b 1\n");
}

TEST(CollapsedTest, LinesOfOneFunctionAreOneStack) {
  ProfileModel model;
  model.name(1, {{.function = "f", .file = "f.ml", .line = 1}});
  model.name(2, {{.function = "f", .file = "f.ml", .line = 2}});
  model.add({1, 9}, 3);
  model.add({2, 9}, 4);
  EXPECT_EQ(collapsed({model.profile}, Measure::kSamples), "f9;f 7\n");
}

TEST(CollapsedTest, SeveralTargets) {
  ProfileModel one(1, "one;x"), two(2, "two");
  one.add({5}, 1);
  two.add({5}, 2);
  EXPECT_EQ(collapsed({one.profile, two.profile}, Measure::kSamples),
            "one:x (pid 1);f5 1\n"
            "two (pid 2);f5 2\n");
  EXPECT_EQ(collapsed({}, Measure::kLive), "");
}

// ---------------------------------------------------------------- speedscope

// tests/e2e/test_profiles.py checks the golden file against speedscope's schema.
TEST(SpeedscopeTest, Golden) {
  ProfileModel other(43, "other");
  other.add({5}, 1, 1);
  std::string text = speedscope_json({example().profile, other.profile});
  const std::string exporter = "\"memprofd@" + program_version().version + "\"";
  const std::size_t at = text.find(exporter);
  ASSERT_NE(at, text.npos);
  expect_golden("profile.speedscope.json",
                text.replace(at, exporter.size(), "\"memprofd@VERSION\""));
}

TEST(SpeedscopeTest, OneTarget) {
  const json file = json::parse(speedscope_json({example().profile}));
  EXPECT_EQ(file["name"], "server (pid 42)");
  ASSERT_EQ(file["profiles"].size(), 5u);
  const json& live = file["profiles"][0];
  EXPECT_EQ(live["name"], "live");
  EXPECT_EQ(live["unit"], "bytes");
  EXPECT_EQ(live["endValue"], 24800);
  EXPECT_EQ(live["weights"], (json{24000, 800}));
  std::vector<std::string> names;
  for (const json& frame : live["samples"][0]) {
    names.push_back(file["shared"]["frames"][frame.get<std::size_t>()]["name"]);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"caml_main", "Main.handle", "Cache.insert", "Cache.add"}));
  const json& add = file["shared"]["frames"][live["samples"][0][3].get<std::size_t>()];
  EXPECT_EQ(add, (json{{"name", "Cache.add"}, {"file", "cache.ml"}, {"line", 10}, {"col", 3}}));
  EXPECT_EQ(file["profiles"][3]["name"], "died young");
  EXPECT_EQ(file["profiles"][3]["endValue"], 36000);
}

TEST(SpeedscopeTest, ObservedProgramsHaveOnlyAllocations) {
  ProfileModel observed = example();
  observed.profile.follows_blocks = false;
  const json file = json::parse(speedscope_json({observed.profile}));
  ASSERT_EQ(file["profiles"].size(), 1u);
  EXPECT_EQ(file["profiles"][0]["name"], "allocated");
}

TEST(SpeedscopeTest, WeightsAddUpAndFramesExist) {
  ProfileModel model;
  for (std::uint64_t i = 1; i <= 500; ++i) {
    model.add({i % 7 + 1, i + 10, 9}, 0).counters.add_allocated(1, weight_of_word(0.003), 6);
  }
  const json file = json::parse(speedscope_json({model.profile}));
  for (const json& profile : file["profiles"]) {
    const auto weights = profile["weights"].get<std::vector<std::int64_t>>();
    EXPECT_EQ(std::accumulate(weights.begin(), weights.end(), std::int64_t{0}),
              profile["endValue"].get<std::int64_t>());
    EXPECT_EQ(profile["samples"].size(), weights.size());
    for (const json& sample : profile["samples"]) {
      for (const json& frame : sample) {
        EXPECT_LT(frame.get<std::size_t>(), file["shared"]["frames"].size());
      }
    }
  }
  EXPECT_EQ(file["profiles"][1]["endValue"], std::llround(500 * 8 / 0.003));
}

TEST(SpeedscopeTest, NamesMayHoldAnything) {
  ProfileModel model(42, "a\"\\\x01\xff");
  model.name(1, {{.function = "\"quoted\"\n\x80", .file = "\\"}});
  model.add({1}, 1);
  const json file = json::parse(speedscope_json({model.profile}));
  EXPECT_EQ(file["shared"]["frames"][0]["name"], "\"quoted\"\n\xEF\xBF\xBD");
  EXPECT_EQ(file["shared"]["frames"][0]["file"], "\\");
}

TEST(SpeedscopeTest, NothingToShow) {
  const json file = json::parse(speedscope_json({}));
  EXPECT_EQ(file["profiles"].size(), 5u);
  EXPECT_EQ(file["shared"]["frames"], json::array());
}

}  // namespace
}  // namespace memprofd
