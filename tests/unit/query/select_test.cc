// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/query/visible_frames.h"
#include "tests/kit/fake_profile.h"

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using testing::FakeProfile;

class SelectTest : public ::testing::Test {
 protected:
  SelectTest() {
    fake_.name(1, {.function = "Cache.add", .file = "cache.ml", .line = 10});
    fake_.name(2, {.function = "Stdlib__List.map", .file = "list.ml", .line = 92});
    fake_.name(3, {.function = "Main.run", .file = "main.ml", .line = 3});
    fake_.add({1, 2, 3}, 10, 5);
    ProfileRow& large = fake_.add({2, 3}, 20, 6);
    large.alloc_class.size = SizeBucket::of(1000);
    large.alloc_class.heap = Heap::kMajor;
    fake_.add({3}, 30, 7).alloc_class.thread = 99;
    snapshot_.info = {.pid = 7,
                      .comm = "comm",
                      .exe = "/bin/exe",
                      .runtime_version = "4.14.1",
                      .sampling_rate = 0.25};
    snapshot_.attached_ns = 1'000'000'000;
    snapshot_.time_ns = 61'000'000'000;
    snapshot_.drops.set(Drop::kPairNoCapture, 4);
    snapshot_.drops.set(Drop::kFollowSessionEnd, 1000);  // on purpose
    snapshot_.rows = fake_.profile.rows;
    snapshot_.symbolizer = fake_.symbolizer;
  }
  // The ids of the rows that pass.
  std::vector<std::uint32_t> selected(const Filter& filter) {
    const auto profile = select(snapshot_, {}, filter);
    EXPECT_TRUE(profile.ok()) << profile.status();
    std::vector<std::uint32_t> ids;
    for (const ProfileRow& row : profile->rows) ids.push_back(row.id.value());
    return ids;
  }

  FakeProfile fake_;
  ProfileSnapshot snapshot_;
};

TEST_F(SelectTest, TakesWhatTheSnapshotKnows) {
  const auto profile = select(snapshot_, {}, {});
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->pid, 7);
  EXPECT_EQ(profile->comm, "comm");
  EXPECT_EQ(profile->exe, "/bin/exe");
  EXPECT_EQ(profile->runtime_version, "4.14.1");
  EXPECT_EQ(profile->sampling_rate, 0.25);
  EXPECT_EQ(profile->dropped_events, 4u);
  EXPECT_EQ(profile->range, (TimeRange{1'000'000'000, 61'000'000'000}));
  EXPECT_EQ(profile->symbolizer, fake_.symbolizer);
  EXPECT_EQ(profile->hidden, nullptr);
  ASSERT_EQ(profile->rows.size(), 3u);
  EXPECT_EQ(profile->rows[1].counters.allocated.samples, 20u);
  EXPECT_EQ(profile->rows[1].counters.live.samples, 6u);
  EXPECT_EQ(profile->rows[1].callstack, snapshot_.rows[1].callstack);
}

TEST_F(SelectTest, RowsThatPassTheFilterStay) {
  EXPECT_THAT(selected({}), ElementsAre(1, 2, 3));
  EXPECT_THAT(selected({.patterns = {"main\\.ml"}}), ElementsAre(3));
  EXPECT_THAT(selected({.require = {"List"}}), ElementsAre(1, 2));
  EXPECT_THAT(selected({.forbid = {"Cache"}}), ElementsAre(2, 3));
  EXPECT_THAT(selected({.min_size_bytes = 4000}), ElementsAre(2));
  EXPECT_THAT(selected({.heap = HeapKind::kMinor}), ElementsAre(1, 3));
  EXPECT_THAT(selected({.threads = {99}}), ElementsAre(3));
  EXPECT_THAT(selected({.require = {"List"}, .heap = HeapKind::kMajor}), ElementsAre(2));
  EXPECT_THAT(selected({.patterns = {"nowhere"}}), ElementsAre());
}

TEST_F(SelectTest, HiddenFramesStayHiddenInTheProfile) {
  const auto profile = select(snapshot_, {}, {.patterns = {"Main"}, .hide = {"^Stdlib__List"}});
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->rows.size(), 2u);
  EXPECT_EQ(profile->rows[0].id.value(), 2u);
  ASSERT_NE(profile->hidden, nullptr);
  VisibleFrames frames(*profile);
  EXPECT_EQ(frames.location(frames.site(*profile->rows[0].callstack)).function, "Main.run");
}

TEST_F(SelectTest, BadFiltersAreRefused) {
  EXPECT_EQ(select(snapshot_, {}, {.hide = {"("}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace memprofd
