// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/leaks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "daemon/query/roll_up.h"
#include "daemon/query/select.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/profile_model.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

constexpr double kSampleBytes = 800;

// Callstack 1 leaks, 2 is a full cache whose blocks turn over, 3 dies at once,
// 4 was allocated at the start and stays.
class LeaksTest : public ::testing::Test {
 protected:
  LeaksTest() {
    recording_.symbolizer = testing::fixed_symbolizer();
    for (int i = 0; i < 300; ++i) recording_.alloc(++id_, 4);
    for (int second = 0; second < 600; ++second) {
      recording_.alloc(++id_, 1);
      recording_.alloc(++id_, 2);
      cache_.push_back(id_);
      recording_.alloc(++id_, 3);
      recording_.die(id_);
      if (cache_.size() > 100) {
        recording_.die(cache_.front(), MEMPROF_DEALLOC_MAJOR);
        cache_.pop_front();
      }
      recording_.advance(kSecond);
      if (second == 199) middle_ = recording_.now();
    }
  }
  LeakAnswer leaks(const TimeRange& range, const LeakQuery& query = {}) const {
    auto answer = find_leaks(recording_.snapshot(), range, {}, query);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return *answer;
  }

  Recording recording_;
  std::uint64_t id_ = 0;
  std::uint64_t middle_ = 0;
  std::deque<std::uint64_t> cache_;
};

TEST_F(LeaksTest, OnlyTheLeakIsASuspect) {
  const LeakAnswer answer = leaks({middle_, 0});
  ASSERT_EQ(answer.suspects.size(), 1u);
  const LeakSuspect& leak = answer.suspects[0];
  EXPECT_EQ(leak.group.location.function, "Sessions.remember");
  EXPECT_DOUBLE_EQ(leak.growth_bytes, 400 * kSampleBytes);
  EXPECT_DOUBLE_EQ(leak.growth_bytes_stderr, 20 * kSampleBytes);
  EXPECT_NEAR(leak.growth_bytes / answer.compared_seconds, kSampleBytes, 1);
  EXPECT_GT(leak.confidence, 0.999);
  EXPECT_EQ(leak.steadiness, 1);
  EXPECT_NEAR(leak.median_age_seconds, 300, 100) << "born evenly over 600 s";
  EXPECT_DOUBLE_EQ(leak.group.counters.live.words * 8, 600 * kSampleBytes);
}

// A range of so many seconds has as many steps. Of three sites one leaks.
TEST_F(LeaksTest, InFewStepsNothingIsNamedAndTheAnswerSaysThatNothingIsKnown) {
  std::map<int, bool> enough;
  for (int seconds = 2; seconds <= 20; ++seconds) {
    const LeakAnswer answer = leaks({recording_.now() - seconds * kSecond, 0});
    EXPECT_GT(answer.compared_seconds, 0);
    EXPECT_TRUE(answer.suspects.empty() || answer.has_enough_steps) << seconds;
    enough[seconds] = answer.has_enough_steps;
  }
  EXPECT_FALSE(enough[2]);
  EXPECT_FALSE(enough[3]);
  EXPECT_TRUE(enough[6]);
  EXPECT_TRUE(enough[20]);
  EXPECT_TRUE(leaks({middle_, 0}).has_enough_steps);
}

std::vector<double> lifetimes(const Counters& counters) {
  std::vector<double> numbers;
  for (const DeathCounts* of : {&counters.deaths, &counters.forgotten, &counters.ages}) {
    for (const DeathCounts::Entry& entry : of->entries()) {
      numbers.insert(numbers.end(), {static_cast<double>(entry.code), entry.words, entry.squares});
    }
    numbers.push_back(of->sum_ns());
  }
  for (const LateEntries::Entry& late : counters.late.entries()) {
    numbers.insert(numbers.end(), {static_cast<double>(late.bucket), late.entered.words,
                                   late.entered.squares, late.missed.words});
  }
  return numbers;
}

// Only named sites are counted.
TEST_F(LeaksTest, LifetimesAreThoseOfTheSiteInTheRange) {
  const ProfileSnapshot snapshot = recording_.snapshot();
  for (const std::uint64_t end_ns : {recording_.now(), recording_.now() - 100 * kSecond}) {
    const LeakAnswer answer = leaks({middle_, end_ns}, {.limit = 2});
    ASSERT_EQ(answer.suspects.size(), 2u);
    const TargetProfile all = select(snapshot, answer.range, {}).value();
    const GroupResult sites = roll_up(all, {});
    for (const LeakSuspect& suspect : answer.suspects) {
      const auto site =
          std::find_if(sites.groups.begin(), sites.groups.end(),
                       [&](const Group& group) { return group.name() == suspect.group.name(); });
      ASSERT_NE(site, sites.groups.end());
      EXPECT_FALSE(suspect.group.counters.ages.empty());
      EXPECT_EQ(lifetimes(suspect.group.counters), lifetimes(site->counters));
      EXPECT_EQ(suspect.group.counters.allocated.words, site->counters.allocated.words);
    }
  }
}

// All live blocks were allocated since the attach: the cache and the rest would have grown.
TEST_F(LeaksTest, SinceTheAttachIsSinceTheProgramHasWarmedUp) {
  const LeakAnswer answer = leaks({});
  EXPECT_NEAR(static_cast<double>(answer.range.begin_ns - kStart), 150e9, 1e9);
  ASSERT_EQ(answer.suspects.size(), 1u);
  EXPECT_EQ(answer.suspects[0].group.location.function, "Sessions.remember");
  EXPECT_NEAR(answer.suspects[0].growth_bytes, 450 * kSampleBytes, 2 * kSampleBytes);
}

TEST_F(LeaksTest, WithALimitTheRestIsShownWithItsDoubt) {
  const LeakAnswer answer = leaks({middle_, 0}, {.limit = 4});
  ASSERT_GE(answer.suspects.size(), 3u);
  for (const LeakSuspect& suspect : answer.suspects) {
    const std::string& function = suspect.group.location.function;
    if (function == "Parser.token") {  // the cache
      EXPECT_EQ(suspect.growth_bytes, 0);
      EXPECT_NEAR(suspect.confidence, 0.5, 1e-9);
      // 100 were born and live, 100 older ones died.
      EXPECT_NEAR(suspect.growth_bytes_stderr, std::sqrt(200) * kSampleBytes, 2 * kSampleBytes);
      EXPECT_NEAR(suspect.median_age_seconds, 50, 20);
    }
    if (function == "Request.handle") {  // stays
      EXPECT_EQ(suspect.growth_bytes, 0);
      EXPECT_EQ(suspect.growth_bytes_stderr, 0);
      EXPECT_GT(suspect.median_age_seconds, 250);
    }
  }
}

// Sites of ten live samples each that neither grow nor shrink, and a leak.
TEST(Leaks, OfManySitesFewAreSuspectsByChance) {
  constexpr std::uint32_t kSites = 300, kLeak = 1000;
  Recording recording;
  recording.symbolizer = std::make_shared<testing::ModelSymbolizer>();
  std::mt19937_64 random(5);
  std::uint64_t id = 0;
  std::multimap<int, std::uint64_t> deaths;  // second: block
  std::exponential_distribution<double> lifetime(0.01);
  std::uint64_t middle = 0;
  for (int second = 0; second < 600; ++second) {
    for (std::uint32_t site = 1; site <= kSites; ++site) {
      if (random() % 10 != 0) continue;
      recording.alloc(++id, site);
      deaths.emplace(second + 1 + static_cast<int>(lifetime(random)), id);
    }
    recording.alloc(++id, kLeak);
    for (; !deaths.empty() && deaths.begin()->first <= second; deaths.erase(deaths.begin())) {
      recording.die(deaths.begin()->second);
    }
    recording.advance(kSecond);
    if (second == 399) middle = recording.now();
  }
  const LeakAnswer answer = find_leaks(recording.snapshot(), {middle, 0}, {}, {}).value();
  ASSERT_FALSE(answer.suspects.empty());
  EXPECT_EQ(answer.suspects[0].group.location.function, "f1000");
  EXPECT_LE(answer.suspects.size(), 4u);
}

// A budget that changes the rate every four minutes: callstack 1 leaks 100 words a second, what
// callstack 2 allocates lives a minute, callstack 3 keeps what it has from the start.
class LeaksOverSessions : public ::testing::Test {
 protected:
  LeaksOverSessions() { recording_.symbolizer = std::make_shared<testing::ModelSymbolizer>(); }

  void run(int sessions, int seconds_each) {
    for (int session = 0; session < sessions; ++session) {
      const std::uint32_t per_block = session % 2 == 0 ? 1 : 2;  // samples
      recording_.set_rate(0.01 * per_block);
      if (session == 0) {
        for (int i = 0; i < 300; ++i) recording_.alloc(++id_, 3);
      }
      for (int second = 0; second < seconds_each; ++second, ++clock_) {
        recording_.alloc(++id_, 1, per_block);
        recording_.alloc(++id_, 2, per_block);
        deaths_.emplace(clock_ + 60, id_);
        for (; deaths_.begin()->first <= clock_; deaths_.erase(deaths_.begin())) {
          recording_.die(deaths_.begin()->second);
        }
        recording_.advance(kSecond);
      }
    }
  }
  LeakAnswer leaks(std::uint64_t begin_ns) const {
    return find_leaks(recording_.snapshot(), {begin_ns, 0}, {}, {}).value();
  }

  Recording recording_;
  std::uint64_t id_ = 0;
  int clock_ = 0;
  std::multimap<int, std::uint64_t> deaths_;  // second: block
};

TEST_F(LeaksOverSessions, ALeakIsFoundWithItsSizeAndNothingElse) {
  run(8, 240);
  for (const std::uint64_t minutes : {0, 15, 25}) {
    const std::uint64_t begin = minutes == 0 ? 0 : recording_.now() - minutes * 60 * kSecond;
    const LeakAnswer answer = leaks(begin);
    ASSERT_EQ(answer.suspects.size(), 1u) << minutes;
    const LeakSuspect& leak = answer.suspects[0];
    EXPECT_EQ(leak.group.location.function, "f1");
    EXPECT_NEAR(leak.growth_bytes / answer.compared_seconds, kSampleBytes, 0.02 * kSampleBytes);
    EXPECT_NEAR(leak.growth_bytes, answer.compared_seconds * kSampleBytes, 3 * kSampleBytes);
    EXPECT_EQ(leak.steadiness, 1);
    EXPECT_GT(answer.compared_seconds, minutes * 60 * 0.45);
    EXPECT_LT(answer.compared_seconds, answer.range.seconds());
  }
}

TEST_F(LeaksOverSessions, ASessionThatHasJustBegunHidesNoLeak) {
  run(1, 900);
  run(1, 5);
  const LeakAnswer answer = leaks(recording_.now() - 600 * kSecond);
  ASSERT_EQ(answer.suspects.size(), 1u);
  EXPECT_EQ(answer.suspects[0].group.location.function, "f1");
  EXPECT_NEAR(answer.suspects[0].growth_bytes, 603 * kSampleBytes, 5 * kSampleBytes);
}

TEST_F(LeaksOverSessions, OfManySessionsTheNewestAreCompared) {
  run(40, 60);
  const LeakAnswer answer = leaks(0);
  EXPECT_NEAR(answer.compared_seconds, 16 * 45, 16 * 5) << "in windows of ten seconds";
  EXPECT_NEAR(answer.range.seconds(), 15 * 60 + 45, 10);
}

// Two minutes at a rate at which few samples stand for much, and two at forty times that.
TEST(Leaks, AnErrorOfASessionBeforeHidesNoLeak) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::ModelSymbolizer>();
  std::uint64_t id = 0;
  recording.set_rate(0.0005);
  for (int second = 0; second < 120; ++second) {
    if (second % 10 == 3) recording.alloc(++id, 1);
    if (second % 10 == 8 && second > 60) recording.die(id - 6);
    recording.advance(kSecond);
  }
  recording.set_rate(0.02);
  for (int second = 0; second < 120; ++second) {
    recording.alloc(++id, 1);
    recording.advance(kSecond);
  }
  const auto answer = find_leaks(recording.snapshot(), {}, {}, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->suspects.size(), 1u);
  EXPECT_GT(answer->suspects[0].confidence, 0.999);
  EXPECT_GT(answer->suspects[0].growth_bytes_stderr, 30'000) << "its size is no surer for that";
}

// What was live before a loss comes to be known again: callstack 1 has 300 blocks, each for five
// minutes, and is full of them before the loss.
class LeaksAfterALoss : public ::testing::Test {
 protected:
  LeaksAfterALoss() { recording_.symbolizer = std::make_shared<testing::ModelSymbolizer>(); }

  void run(int seconds, bool leaks = false) {
    for (int second = 0; second < seconds; ++second) {
      recording_.alloc(++id_, 1);
      cache_.push_back(id_);
      if (leaks) recording_.alloc(++id_, 2);
      if (cache_.size() > 300) {
        recording_.die(cache_.front(), MEMPROF_DEALLOC_MAJOR);
        cache_.pop_front();
      }
      if (second % 20 == 0) recording_.collect_major();
      recording_.advance(kSecond);
    }
  }
  LeakAnswer leaks(std::uint64_t last_seconds, std::size_t limit = 0) const {
    const std::uint64_t begin = last_seconds == 0 ? 0 : recording_.now() - last_seconds * kSecond;
    return find_leaks(recording_.snapshot(), {begin, 0}, {}, {.limit = limit}).value();
  }

  Recording recording_;
  std::uint64_t id_ = 0;
  std::deque<std::uint64_t> cache_;
};

TEST_F(LeaksAfterALoss, WhatFillsUpAgainIsNoSuspect) {
  run(1300);
  EXPECT_TRUE(leaks(0).suspects.empty());
  recording_.lose();
  for (const int seconds : {20, 100, 170, 200, 300}) {
    run(seconds);
    for (const std::uint64_t last : {0, 30, 150, 300, 900}) {
      EXPECT_TRUE(leaks(last).suspects.empty()) << seconds << " more, last " << last;
    }
  }
  EXPECT_FALSE(leaks(30, 3).suspects.empty()) << "asked for the largest, whatever they do";
}

TEST_F(LeaksAfterALoss, ALeakIsFoundAllTheSame) {
  run(600, true);
  recording_.lose();
  run(1200, true);
  const LeakAnswer answer = leaks(700);
  ASSERT_EQ(answer.suspects.size(), 1u);
  EXPECT_EQ(answer.suspects[0].group.location.function, "f2");
  EXPECT_NEAR(answer.compared_seconds, 600, 40);
  EXPECT_DOUBLE_EQ(answer.suspects[0].growth_bytes, answer.compared_seconds * kSampleBytes);
}

// A range that begins when a session is some seconds old.
TEST_F(LeaksAfterALoss, ARangeThatBeginsWithASessionIsNotWarm) {
  const auto compared_from = [&] {
    return static_cast<double>(leaks(390, 1).range.begin_ns - kStart) / 1e9;
  };
  run(400);
  EXPECT_NEAR(compared_from(), 100, 1) << "after the attach";
  run(1000);
  recording_.set_rate(0.02);
  run(400);
  EXPECT_NEAR(compared_from(), 1500, 1) << "after a change of the rate";
}

// Ten blocks of 1 MiB, then eleven: that is known for certain, and no sign of a leak.
TEST(Leaks, OneLargeBlockMoreIsHardlyAHint) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::ModelSymbolizer>();
  std::uint64_t id = 0;
  for (; id < 10;) recording.alloc(++id, 1, 1'300, 1 << 17);
  recording.advance(kSecond);
  const std::uint64_t begin = recording.now();
  recording.alloc(++id, 1, 1'300, 1 << 17);
  recording.advance(kSecond);
  const LeakAnswer all = find_leaks(recording.snapshot(), {begin, 0}, {}, {.limit = 5}).value();
  ASSERT_EQ(all.suspects.size(), 1u);
  EXPECT_NEAR(all.suspects[0].growth_bytes / (1 << 20), 1, 0.001);
  EXPECT_DOUBLE_EQ(all.suspects[0].confidence, 0.5);
  EXPECT_TRUE(find_leaks(recording.snapshot(), {begin, 0}, {}, {}).value().suspects.empty());
}

TEST(Leaks, OneSampleIsHardlyAHint) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::ModelSymbolizer>();
  recording.alloc(1, 2, 10);
  recording.advance(kSecond);
  const std::uint64_t begin = recording.now();
  recording.alloc(2, 1);
  recording.advance(kSecond);
  const LeakAnswer all = find_leaks(recording.snapshot(), {begin, 0}, {}, {.limit = 5}).value();
  ASSERT_EQ(all.suspects.size(), 2u);
  for (const LeakSuspect& suspect : all.suspects) {
    if (suspect.group.location.function != "f1") continue;
    EXPECT_EQ(suspect.growth_bytes, kSampleBytes);
    EXPECT_DOUBLE_EQ(suspect.confidence, 0.5) << "it may as well have been another's turn";
  }
  EXPECT_TRUE(find_leaks(recording.snapshot(), {begin, 0}, {}, {}).value().suspects.empty());
}

// Callstacks of 50 functions of one module, each of which is called by all of Shop.serve, and of a
// healthy module; all allocate by the standard library.
class SpreadLeak : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kSites = 50, kHealthy = 100;

  SpreadLeak() {
    recording_.symbolizer = symbolizer_;
    for (std::uint32_t site = 1; site <= kSites; ++site) {
      name(site, "Catalog.add_" + std::to_string(site));
    }
    name(kHealthy, "Parser.token");
  }
  void name(std::uint32_t site, const std::string& function) {
    symbolizer_->known[{site, -1}] = {
        {.function = "Stdlib__Bytes.sub", .file = "bytes.ml", .line = 1},
        {.function = function, .file = "shop.ml", .line = site},
        {.function = "Shop.serve", .file = "shop.ml", .line = 500},
        {.function = "Shop.main", .file = "shop.ml", .line = 600}};
  }
  // Each site leaks now and then; Parser turns over.
  void run(int seconds) {
    for (int second = 0; second < seconds; ++second) {
      recording_.alloc(++id_, 1 + static_cast<std::uint32_t>(random_() % kSites));
      for (int i = 0; i < 3; ++i) {
        recording_.alloc(++id_, kHealthy);
        parsed_.push_back(id_);
      }
      for (; parsed_.size() > 30; parsed_.pop_front()) recording_.die(parsed_.front());
      recording_.advance(kSecond);
    }
  }
  LeakAnswer leaks(const Filter& filter) const {
    return find_leaks(recording_.snapshot(), {}, filter, {.roll_up = true}).value();
  }

  std::shared_ptr<testing::ModelSymbolizer> symbolizer_ =
      std::make_shared<testing::ModelSymbolizer>();
  Recording recording_;
  std::mt19937_64 random_{3};
  std::uint64_t id_ = 0;
  std::deque<std::uint64_t> parsed_;
};

TEST_F(SpreadLeak, IsNamedByItsModuleAndItsCaller) {
  run(120);
  const LeakAnswer answer = leaks({.forbid = {"Parser"}, .site_frame = SiteFrame::kApplication});
  // By innermost frames it is one site, Bytes.sub: it is a leak, and one of its sites has to be
  // named.
  ASSERT_EQ(answer.suspects.size(), 1u);
  EXPECT_TRUE(answer.suspects[0].group.location.function.starts_with("Catalog.add_"));
}

TEST_F(SpreadLeak, WithoutAnyLeakingSiteGroupsAreLookedAt) {
  for (std::uint32_t site = 1; site <= kSites; ++site) {
    symbolizer_->known[{site, -1}][0].function = "Catalog.make_" + std::to_string(site);
  }
  run(120);
  const LeakAnswer answer = leaks({});
  ASSERT_TRUE(answer.suspects.empty());
  ASSERT_FALSE(answer.rolled_up.empty());
  EXPECT_TRUE(answer.rolled_up[0].certain);
  EXPECT_EQ(answer.rolled_up[0].group_by, GroupBy::kModule);
  EXPECT_EQ(answer.rolled_up[0].suspect.group.unit, "Catalog");
  EXPECT_GT(answer.rolled_up[0].suspect.growth_bytes, 30 * kSampleBytes);
}

// A leak, a healthy site, and what is hidden is the frame that both are in.
TEST(Leaks, WhatIsHiddenDoesNotHideThatThereIsALeak) {
  auto symbolizer = std::make_shared<testing::ModelSymbolizer>();
  symbolizer->known[{1, -1}] = {{.function = "Cache.add"}, {.function = "Shop.serve"}};
  symbolizer->known[{2, -1}] = {{.function = "Parser.token"}, {.function = "Shop.serve"}};
  Recording recording;
  recording.symbolizer = symbolizer;
  std::mt19937_64 random(9);
  std::uint64_t id = 0;
  std::deque<std::uint64_t> tokens;
  for (int second = 0; second < 300; ++second) {
    if (second % 2 == 0) recording.alloc(++id, 1);
    for (std::uint64_t i = random() % 40; i > 0; --i) {
      recording.alloc(++id, 2);
      tokens.push_back(id);
    }
    for (std::uint64_t i = random() % 40 + tokens.size() / 40; i > 0 && !tokens.empty(); --i) {
      recording.die(tokens.front());
      tokens.pop_front();
    }
    recording.advance(kSecond);
  }
  const auto named = [&](const Filter& filter) {
    std::vector<std::string> functions;
    const auto answer = find_leaks(recording.snapshot(), {}, filter, {});
    for (const LeakSuspect& suspect : answer->suspects) {
      functions.push_back(suspect.group.location.function);
    }
    return functions;
  };
  EXPECT_EQ(named({}), std::vector<std::string>{"Cache.add"});
  EXPECT_EQ(named({.hide = {"Cache", "Parser"}}), std::vector<std::string>{"Shop.serve"})
      << "together they go up and down, and the leak is there all the same";
}

// A Buffer that is never emptied: one block, replaced by one of twice the size.
TEST(Leaks, ABlockThatIsReplacedByLargerOnesIsALeakInSteps) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::ModelSymbolizer>();
  std::uint64_t id = 0;
  std::uint64_t words = 1 << 15;
  for (int second = 0; second < 160; ++second) {
    if (second == 10 || second == 20 || second == 50 || second == 120) {
      recording.alloc(++id, 1, static_cast<std::uint32_t>(words / 100), words);
      if (id > 1) recording.die(id - 1, MEMPROF_DEALLOC_MAJOR);
      words *= 2;
    }
    recording.advance(kSecond);
  }
  const LeakAnswer answer = find_leaks(recording.snapshot(), {}, {}, {}).value();
  ASSERT_EQ(answer.suspects.size(), 1u);
  EXPECT_TRUE(answer.suspects[0].in_steps);
  EXPECT_EQ(answer.suspects[0].group.location.function, "f1");
  EXPECT_NEAR(answer.suspects[0].growth_bytes / answer.compared_seconds * 110,
              3.5 * (1 << 15) * 8.0, 0.05 * 3.5 * (1 << 15) * 8)
      << "what is in them";
}

TEST_F(LeaksTest, LifetimeFiltersAreRefused) {
  EXPECT_EQ(find_leaks(recording_.snapshot(), {}, {.lifetime = {.fate = Fate::kAlive}}, {})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace memprofd
