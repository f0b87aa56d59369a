#include "daemon/store/sites.h"

#include <gtest/gtest.h>

#include <map>

namespace memprofd {
namespace {

class FakeSymbolizer : public Symbolizer {
 public:
  std::map<std::uint64_t, std::vector<Location>> known;
  std::vector<Location> locations(std::uint64_t address, std::int32_t) override {
    const auto it = known.find(address);
    return it != known.end() ? it->second : std::vector<Location>{{.function = "?"}};
  }
};

class SitesTest : public testing::Test {
 protected:
  SitesTest() {
    snapshot_.symbolizer = symbolizer_;
    symbolizer_->known[1] = {{.function = "Cache.add", .file = "cache.ml", .line = 10}};
    symbolizer_->known[2] = {{.function = "Cache.add", .file = "cache.ml", .line = 11}};
    symbolizer_->known[3] = {{.function = "Parser.token", .file = "parser.ml", .line = 5}};
    symbolizer_->known[8] = {{.function = "Main.a", .file = "main.ml", .line = 1}};
    symbolizer_->known[9] = {{.function = "Main.b", .file = "main.ml", .line = 2}};
  }

  CallstackCounters& add(std::vector<std::uint64_t> entries, std::uint32_t allocated,
                         std::uint32_t live) {
    auto callstack = std::make_shared<Callstack>();
    callstack->entries = std::move(entries);
    CallstackStats& stats = snapshot_.callstacks.emplace_back();
    stats.callstack = callstack;
    stats.counters.allocated.add(allocated, 1);
    if (live > 0) stats.counters.live.add(live, 1);
    return stats.counters;
  }
  std::vector<std::string> names(const SiteQuery& query) const {
    std::vector<std::string> result;
    for (const Site& site : roll_up_sites(snapshot_, query)) {
      result.push_back(site.location.function + ":" + std::to_string(site.location.line));
    }
    return result;
  }
  using Names = std::vector<std::string>;

  std::shared_ptr<FakeSymbolizer> symbolizer_ = std::make_shared<FakeSymbolizer>();
  TargetSnapshot snapshot_;
};

TEST_F(SitesTest, CallstacksOfOneSiteAreSummed) {
  add({1, 8}, 10, 1);
  add({3, 9}, 5, 5);
  add({1, 9}, 20, 2);
  const auto sites = roll_up_sites(snapshot_, {.order = SiteOrder::kAllocated});
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(sites[0].location.function, "Cache.add");
  EXPECT_EQ(sites[0].counters.allocated.samples, 30u);
  EXPECT_EQ(sites[0].counters.live.samples, 3u);
  ASSERT_EQ(sites[0].callstack.size(), 2u);
  EXPECT_EQ(sites[0].callstack[1].function, "Main.b") << "the heavier callstack";
  EXPECT_EQ(sites[1].counters.allocated.samples, 5u);
}

TEST_F(SitesTest, LinesAreSitesOfTheirOwn) {
  add({1}, 10, 1);
  add({2}, 20, 2);
  EXPECT_EQ(names({.order = SiteOrder::kAllocated}), (Names{"Cache.add:11", "Cache.add:10"}));
}

TEST_F(SitesTest, EachOrder) {
  add({1}, 10, 1).promoted.add(5, 1);
  CallstackCounters& parser = add({3}, 2, 2);
  parser.allocated.words = 1000;  // fewer samples at a lower rate
  parser.lifetime.add(1'000'000, 1);
  snapshot_.callstacks[0].counters.lifetime.add(1'000, 100);
  const Names cache_first{"Cache.add:10", "Parser.token:5"};
  const Names parser_first{"Parser.token:5", "Cache.add:10"};
  EXPECT_EQ(names({.order = SiteOrder::kAllocated}), parser_first);
  EXPECT_EQ(names({.order = SiteOrder::kSamples}), cache_first);
  EXPECT_EQ(names({.order = SiteOrder::kLive}), parser_first);
  EXPECT_EQ(names({.order = SiteOrder::kPromoted}), cache_first);
  EXPECT_EQ(names({.order = SiteOrder::kLifetime}), parser_first);
}

TEST_F(SitesTest, TiesAreOrderedByName) {
  add({3}, 1, 1);
  add({2}, 1, 1);
  add({1}, 1, 1);
  EXPECT_EQ(names({}), (Names{"Cache.add:10", "Cache.add:11", "Parser.token:5"}));
}

TEST_F(SitesTest, LimitAndPattern) {
  add({1}, 3, 3);
  add({2}, 2, 2);
  add({3}, 1, 1);
  EXPECT_EQ(names({.limit = 1}), (Names{"Cache.add:10"}));
  EXPECT_EQ(names({.limit = 9}).size(), 3u);
  EXPECT_EQ(names({.pattern = "Parser"}), (Names{"Parser.token:5"}));
  EXPECT_EQ(names({.pattern = "cache.ml"}), (Names{"Cache.add:10", "Cache.add:11"}));
  EXPECT_TRUE(names({.pattern = "nowhere"}).empty());
}

TEST_F(SitesTest, CallstackOnlyWhenAsked) {
  add({1, 8}, 1, 1);
  EXPECT_TRUE(roll_up_sites(snapshot_, {.with_callstack = false})[0].callstack.empty());
}

TEST_F(SitesTest, SiteWithoutWeightHasItsCallstackToo) {
  add({1, 8}, 1, 0);
  const auto sites = roll_up_sites(snapshot_, {.order = SiteOrder::kLive});
  EXPECT_EQ(sites[0].callstack.size(), 2u);
}

TEST_F(SitesTest, UnknownCallstackIsASite) {
  add({}, 1, 1);
  EXPECT_EQ(names({}), (Names{"(unknown):0"}));
}

TEST(StateNameTest, Words) {
  EXPECT_EQ(state_name(TargetState::kWaiting), "waiting");
  EXPECT_EQ(state_name(TargetState::kSampling), "sampling");
  EXPECT_EQ(state_name(TargetState::kDetached), "detached");
  EXPECT_EQ(state_name(TargetState::kExited), "exited");
  EXPECT_EQ(state_name(TargetState::kFailed), "failed");
}

}  // namespace
}  // namespace memprofd
