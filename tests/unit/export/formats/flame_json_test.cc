// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/flame_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "tests/kit/profile_model.h"

namespace memprofd {
namespace {

using nlohmann::json;
using testing::ProfileModel;
using testing::run;

constexpr const char* kMeasures[] = {"live", "allocated", "promoted", "died_young", "died_old"};

// The tree read back by paths: "a/b" is the node of b below that of a.
struct Tree {
  explicit Tree(const std::vector<TargetProfile>& profiles, Recursion recursion = Recursion::kFull)
      : data(json::parse(flame_json(profiles, recursion))) {
    std::vector<std::string> path;
    for (std::size_t i = 0; i < data["parent"].size(); ++i) {
      const auto above = data["parent"][i].get<std::int64_t>();
      EXPECT_LT(above, static_cast<std::int64_t>(i));
      path.push_back(above < 0    ? ""
                     : above == 0 ? name(i)
                                  : path[static_cast<std::size_t>(above)] + "/" + name(i));
      nodes[path.back()] = i;
      EXPECT_TRUE(siblings.insert({above, data["function"][i]}).second || i == 0);
    }
  }
  const json& function(std::size_t node) const {
    return data["functions"][data["function"][node].get<std::size_t>()];
  }
  std::string string(const json& index) const { return data["strings"][index.get<std::size_t>()]; }
  std::string name(std::size_t node) const { return string(function(node)[0]); }
  const json& self(const std::string& path, const char* measure) const {
    return data["self"][measure][nodes.at(path)];
  }

  json data;
  std::map<std::string, std::size_t> nodes;
  std::set<std::pair<std::int64_t, json>> siblings;
};

ProfileModel example() {
  ProfileModel model;
  model.name(0x10,
             {{"add", "cache.ml", 10, 2, 9, "server"}, {"insert", "cache.ml", 55, 2, 9, "server"}});
  model.name(0x20, {{"main", "main.ml", 20, 2, 9, "server"}});
  model.name(0x40, {{"token", "parse.ml", 7, 0, 1, "server"}});
  Counters& add = model.add({0x10, 0x20}, 100, 30).counters;
  add.promoted.add(40, weight_of_word(ProfileModel::kRate));
  add.deaths.add(Heap::kMajor, 2'000'000'000, 10, 1);
  Counters& token = model.add({0x40, run(1), 0x20}, 50).counters;
  token.deallocated[0].add(45, weight_of_word(ProfileModel::kRate));
  token.deallocated[1].add(5, weight_of_word(ProfileModel::kRate));
  model.add({0x20}, 4, 2);
  return model;
}

TEST(FlameJsonTest, MergedFromTheRoot) {
  const Tree tree({example().profile});
  EXPECT_EQ(tree.nodes.size(), 6u) << tree.data.dump();
  EXPECT_EQ(tree.self("", "allocated"), 0);
  EXPECT_EQ(tree.self("main", "allocated"), 3200);
  EXPECT_EQ(tree.self("main", "live"), 1600);
  EXPECT_EQ(tree.self("main/insert", "allocated"), 0);
  EXPECT_EQ(tree.self("main/insert/add", "allocated"), 80000);
  EXPECT_EQ(tree.self("main/insert/add", "live"), 24000);
  EXPECT_EQ(tree.self("main/insert/add", "promoted"), 32000);
  EXPECT_EQ(tree.self("main/token/token", "died_young"), 36000);
  EXPECT_EQ(tree.self("main/token/token", "died_old"), 4000);
  EXPECT_EQ(tree.self("main/token", "died_old"), 0);
  EXPECT_EQ(tree.data["samples"]["live"][tree.nodes.at("main/insert/add")], 30);
  EXPECT_EQ(tree.data["parent"][0], -1);
}

// A node's variance equals that of the tables: a block that is certainly sampled has none, however
// many samples it has.
TEST(FlameJsonTest, TheVarianceOfEachNode) {
  ProfileModel model = example();
  const SampleWeight certain = weight_of_block(1 << 20, ProfileModel::kRate);
  model.add({0x60, 0x20}, 0).counters.live.add(1, certain);
  const Tree tree({model.profile});
  const auto variance = [&](const std::string& path, const char* measure) {
    return tree.data["variance"][measure][tree.nodes.at(path)].get<double>();
  };
  EXPECT_NEAR(variance("main/insert/add", "live"), 30 * 0.99 * 800 * 800, 3e3);
  EXPECT_NEAR(variance("main/insert/add", "allocated"), 100 * 0.99 * 800 * 800, 1e4);
  EXPECT_LT(std::sqrt(variance("main/f96", "live")), 8);
  EXPECT_EQ(variance("main/insert", "live"), 0);
}

TEST(FlameJsonTest, FoldsRecursionWithTheSameTotals) {
  ProfileModel model = example();
  model.add({0x40, run(310), 0x20}, 7, 3);
  const Tree full({model.profile}), folded({model.profile}, Recursion::kFolded);
  EXPECT_EQ(folded.self("main/token", "allocated"), 800 * 57);
  EXPECT_FALSE(folded.nodes.contains("main/token/token"));
  EXPECT_EQ(folded.data["frames"][folded.nodes.at("main/token")], 311) << "the deepest";
  EXPECT_EQ(folded.data["frames"][folded.nodes.at("main")], 1);
  EXPECT_EQ(full.data["totals"], folded.data["totals"]);
  EXPECT_FALSE(full.data.contains("frames"));
}

TEST(FlameJsonTest, FoldsRecursionAtAnyLineOfAFunction) {
  ProfileModel model;
  model.name(1, {{.function = "walk", .file = "walk.ml", .line = 10}});
  model.name(2, {{.function = "walk", .file = "walk.ml", .line = 12}});
  model.name(3, {{.function = "walk", .file = "other.ml", .line = 12}});
  model.add({1, 2, 1, 3, 9}, 1);
  const Tree tree({model.profile}, Recursion::kFolded);
  const std::size_t inner = tree.nodes.at("f9/walk/walk");
  EXPECT_EQ(tree.data["frames"][inner], 3);
  EXPECT_EQ(tree.function(inner)[2], 10) << "where it allocates";
  EXPECT_EQ(tree.data["frames"][tree.nodes.at("f9/walk")], 1) << "another file's";
}

TEST(FlameJsonTest, FunctionsFilesAndLines) {
  const Tree tree({example().profile});
  const json& add = tree.function(tree.nodes.at("main/insert/add"));
  EXPECT_EQ(tree.string(add[1]), "cache.ml");
  EXPECT_EQ(add[2], 10);
}

TEST(FlameJsonTest, TotalsWithTheirError) {
  const Tree tree({example().profile});
  for (const char* measure : kMeasures) {
    const auto self = tree.data["self"][measure].get<std::vector<std::int64_t>>();
    const auto samples = tree.data["samples"][measure].get<std::vector<std::int64_t>>();
    const json& total = tree.data["totals"][measure];
    EXPECT_EQ(std::accumulate(self.begin(), self.end(), std::int64_t{0}), total[0]) << measure;
    EXPECT_EQ(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}), total[2]);
  }
  EXPECT_EQ(tree.data["totals"]["allocated"][0], 123200);
  EXPECT_NEAR(tree.data["totals"]["allocated"][1].get<double>(), std::sqrt(154 * 0.99) * 800, 1);
}

TEST(FlameJsonTest, MedianLifetimeWhereBlocksDied) {
  const Tree tree({example().profile});
  const json& lifetimes = tree.data["lifetime_p50"];
  EXPECT_NEAR(lifetimes[tree.nodes.at("main/insert/add")].get<double>(), 2, 0.6);
  EXPECT_TRUE(lifetimes[tree.nodes.at("main")].is_null());
  EXPECT_EQ(lifetimes.size(), tree.data["parent"].size());
}

// Live blocks have known ages.
TEST(FlameJsonTest, LongerThanWhereTheMedianIsNotReached) {
  ProfileModel model = example();
  for (ProfileRow& row : model.profile.rows) {
    for (int i = 0; i < 1000; ++i) row.counters.ages.add(Heap::kMinor, 100'000'000'000, 1, 100);
  }
  const Tree tree({model.profile});
  const std::size_t node = tree.nodes.at("main/insert/add");
  EXPECT_TRUE(tree.data["lifetime_p50"][node].is_null());
  EXPECT_NEAR(tree.data["lifetime_p50_longer_than"][node].get<double>(), 100, 30);
  EXPECT_TRUE(tree.data["lifetime_p50_longer_than"][0].is_null()) << "nothing is known of it";
  EXPECT_EQ(tree.data["lifetime_p50_longer_than"].size(), tree.data["parent"].size());
}

TEST(FlameJsonTest, Facts) {
  ProfileModel model = example();
  model.profile.dropped_events = 3;
  const json data = Tree({model.profile}).data;
  EXPECT_EQ(data["title"], "");
  EXPECT_EQ(data["pid"], 42);
  EXPECT_EQ(data["comm"], "server");
  EXPECT_EQ(data["runtime_version"], "4.14.1");
  EXPECT_EQ(data["begin_unix_ms"], 1'700'000'000'000);
  EXPECT_EQ(data["end_unix_ms"], 1'700'000'010'000);
  EXPECT_EQ(data["sampling_rate"], 0.01);
  EXPECT_EQ(data["dropped_events"], 3);
  ASSERT_EQ(data["measures"].size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(data["measures"][i]["key"], kMeasures[i]);
  EXPECT_EQ(data["measures"][3],
            (json{{"key", "died_young"}, {"label", "Died young"}, {"unit", "bytes"}}));
}

TEST(FlameJsonTest, ObservedProgramsHaveOnlyAllocations) {
  const ProfileModel followed = example();
  ProfileModel observed = example();
  observed.profile.follows_blocks = false;
  for (const auto& profiles :
       {std::vector{observed.profile}, std::vector{followed.profile, observed.profile}}) {
    const Tree tree(profiles);
    ASSERT_EQ(tree.data["measures"].size(), 1u);
    EXPECT_EQ(tree.data["measures"][0]["key"], "allocated");
    for (const char* column : {"self", "samples", "totals"}) {
      EXPECT_EQ(tree.data[column].size(), 1u) << column;
      EXPECT_TRUE(tree.data[column].contains("allocated")) << column;
    }
  }
}

TEST(FlameJsonTest, SeveralTargetsAreBelowTheRoot) {
  ProfileModel one(1, "one"), two(2, "two");
  one.add({5}, 1);
  two.add({5}, 2);
  two.profile.sampling_rate = 0.5;
  const Tree tree({one.profile, two.profile});
  EXPECT_EQ(tree.data["title"], "2 programs");
  EXPECT_EQ(tree.data["pid"], 0);
  EXPECT_EQ(tree.data["sampling_rate"], 0);
  EXPECT_EQ(tree.self("one (pid 1)/f5", "allocated"), 800);
  EXPECT_EQ(tree.self("two (pid 2)/f5", "allocated"), 1600);
}

TEST(FlameJsonTest, NothingToShow) {
  EXPECT_EQ(Tree({}).nodes.size(), 1u);
  EXPECT_EQ(Tree({ProfileModel().profile}).data["functions"], json::array());
}

TEST(FlameJsonTest, NamesMayHoldAnything) {
  ProfileModel model(42, "x\xff");
  model.name(1, {{.function = "</script>\"\x80", .file = "\n"}});
  model.add({1}, 1);
  const Tree tree({model.profile});
  EXPECT_EQ(tree.nodes.count("</script>\"\xEF\xBF\xBD"), 1u);
  EXPECT_EQ(tree.data["comm"], "x\xEF\xBF\xBD");
}

TEST(FlameJsonTest, DeepRecursionAndDeepStacks) {
  ProfileModel model;
  model.add({1, run(9'999), 2}, 1);
  EXPECT_EQ(json::parse(flame_json({model.profile}, Recursion::kFull))["parent"].size(), 10'002u);
  EXPECT_EQ(json::parse(flame_json({model.profile}))["parent"].size(), 3u);
  ProfileModel mutual;
  std::vector<std::uint64_t> entries;
  for (int i = 0; i < 5'000; ++i) entries.insert(entries.end(), {1, 2});
  mutual.add(entries, 1);
  EXPECT_EQ(json::parse(flame_json({mutual.profile}, Recursion::kFull))["parent"].size(), 10'001u);
  const json folded = json::parse(flame_json({mutual.profile}));
  EXPECT_EQ(folded["frames"], (json{1, 5'000, 5'000}));
}

// 100 outer paths of 15 frames; callstacks with 5 inner frames of their own.
ProfileModel many_callstacks(std::uint64_t stacks) {
  ProfileModel model;
  for (std::uint64_t i = 0; i < stacks; ++i) {
    std::vector<std::uint64_t> entries;
    for (std::uint64_t own = 0; own < 5; ++own) entries.push_back(1'000'000 + 5 * i + own);
    for (std::uint64_t depth = 0; depth < 15; ++depth) entries.push_back(100 * depth + i % 100);
    model.add(entries, 1, i % 2);
  }
  return model;
}

TEST(FlameJsonTest, GrowsByWhatCallstacksDoNotShare) {
  for (const std::uint64_t stacks : {1000, 2000}) {
    const json data = json::parse(flame_json({many_callstacks(stacks).profile}));
    EXPECT_EQ(data["parent"].size(), 1 + 100 * 15 + 5 * stacks);
    EXPECT_EQ(data["functions"].size(), 100 * 15 + 5 * stacks);
  }
}

TEST(FlameJsonTest, FullTreeLeavesOutTheLightest) {
  constexpr std::size_t kNodes = 100;
  ProfileModel model;
  for (std::uint64_t i = 0; i < 200; ++i) model.add({10 + i, 3}, 1);
  model.add({1, 2}, 1'000);
  const json data = json::parse(flame_json({model.profile}, Recursion::kFolded, kNodes));
  EXPECT_EQ(data["parent"].size(), kNodes);
  EXPECT_EQ(data["totals"]["allocated"][2], 1'200);
  EXPECT_EQ(data["samples"]["allocated"][2], 1'000) << "the heaviest is whole";
  const std::size_t with_room = kNodes - 4;  // without the root, f2, f1 and f3
  EXPECT_EQ(data["samples"]["allocated"][3], 200 - with_room) << "counted at f3";
}

}  // namespace
}  // namespace memprofd
