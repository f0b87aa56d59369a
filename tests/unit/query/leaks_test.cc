// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/leaks.h"

#include <gtest/gtest.h>

#include <deque>

#include "tests/kit/fake_service.h"
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
  EXPECT_DOUBLE_EQ(leak.growth_bytes_stderr, std::sqrt(400) * kSampleBytes);
  EXPECT_NEAR(leak.growth_bytes_per_second, kSampleBytes, 1);
  EXPECT_GT(leak.confidence, 0.999);
  EXPECT_EQ(leak.steadiness, 1);
  EXPECT_NEAR(leak.median_age_seconds, 300, 100) << "born evenly over 600 s";
  EXPECT_DOUBLE_EQ(leak.group.counters.live.words * 8, 600 * kSampleBytes);
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

TEST_F(LeaksTest, LifetimeFiltersAreRefused) {
  EXPECT_EQ(find_leaks(recording_.snapshot(), {}, {.lifetime = {.fate = Fate::kAlive}}, {})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace memprofd
