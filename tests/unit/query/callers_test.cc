// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "bpf/events.h"
#include "tests/kit/fake_profile.h"

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using testing::FakeProfile;
using testing::HideFunction;

constexpr std::uint64_t kMap = 1, kAdd = 2, kFill = 3, kMainA = 4, kMainB = 5;

class CallersTest : public ::testing::Test {
 protected:
  CallersTest() {
    fake_.name(kMap, {.function = "List.map", .file = "list.ml", .line = 92});
    fake_.name(kAdd, {.function = "Cache.add", .file = "cache.ml", .line = 1});
    fake_.name(kFill, {.function = "Cache.fill", .file = "cache.ml", .line = 20});
    fake_.name(kMainA, {.function = "Main.a", .file = "main.ml", .line = 1});
    fake_.name(kMainB, {.function = "Main.b", .file = "main.ml", .line = 50});
  }
  CallersResult callers(std::string function, std::size_t limit = 0) {
    auto result =
        callers_of(fake_.profile,
                   {.function = std::move(function), .order = Measure::kAllocated, .limit = limit});
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }
  static std::vector<std::string> lines(const std::vector<Group>& groups) {
    std::vector<std::string> result;
    for (const Group& group : groups) {
      result.push_back(
          absl::StrCat(group.location.function, " ", group.counters.allocated.samples));
    }
    return result;
  }
  static std::uint64_t samples(const Group& group) { return group.counters.allocated.samples; }

  FakeProfile fake_;
};

TEST_F(CallersTest, TheExampleOfTheHeader) {
  fake_.add({kMap, kMap, kMainA}, 10);
  fake_.add({kAdd, kMap, kFill, kMap, kMainA}, 4);
  fake_.add({kAdd, kMainB}, 1);
  const CallersResult result = callers("^List.map$");
  EXPECT_EQ(samples(result.total), 14u);
  EXPECT_EQ(samples(result.self), 10u);
  EXPECT_THAT(lines(result.callers), ElementsAre("Main.a 14", "Cache.fill 4"));
  EXPECT_THAT(lines(result.callees), ElementsAre("Cache.add 4", "Cache.fill 4"));
  EXPECT_EQ(result.total.location.function, "List.map");
  EXPECT_EQ(result.self.location.file, "list.ml");
}

TEST_F(CallersTest, WithoutReentryCalleesAndSelfSumUpToTotal) {
  fake_.add({kFill, kMainA}, 10);
  fake_.add({kAdd, kFill, kMainA}, 20);
  fake_.add({kMap, kFill, kMainB}, 30);
  fake_.add({kFill}, 1);
  const CallersResult result = callers("fill");
  EXPECT_EQ(samples(result.total), 61u);
  EXPECT_EQ(samples(result.self), 11u);
  EXPECT_THAT(lines(result.callers), ElementsAre("Main.a 30", "Main.b 30"));
  EXPECT_THAT(lines(result.callees), ElementsAre("List.map 30", "Cache.add 20"));
  EXPECT_THAT(lines(callers("fill", 1).callees), ElementsAre("List.map 30"));
}

TEST_F(CallersTest, RecursionCountsOncePerRow) {
  fake_.add({kAdd, kFill, MEMPROF_RUN_MARK | 9, kMainA, kFill, kMainA}, 7);
  const CallersResult result = callers("Cache.fill");
  EXPECT_EQ(samples(result.total), 7u);
  EXPECT_EQ(samples(result.self), 0u);
  EXPECT_THAT(lines(result.callers), ElementsAre("Main.a 7"));
  EXPECT_THAT(lines(result.callees), ElementsAre("Cache.add 7", "Main.a 7"));
}

TEST_F(CallersTest, ARepeatedFrameWithInlinedFunctionsCallsItself) {
  constexpr std::uint64_t kInlined = 20;
  fake_.symbolizer->table[kInlined] = {{.function = "Leaf.f"}, {.function = "Loop.g"}};
  fake_.add({kInlined, MEMPROF_RUN_MARK | 1'000'000'000, kMainA}, 3);
  EXPECT_THAT(lines(callers("Leaf").callers), ElementsAre("Loop.g 3"));
  EXPECT_THAT(lines(callers("Leaf").callees), ElementsAre("Loop.g 3"));
  EXPECT_THAT(lines(callers("Loop").callers), ElementsAre("Leaf.f 3", "Main.a 3"));
}

TEST_F(CallersTest, LinesOfAFunctionAreOne) {
  fake_.name(10, {.function = "Main.a", .file = "main.ml", .line = 77});
  fake_.add({kAdd, kMainA}, 1);
  fake_.add({kAdd, 10}, 2);
  EXPECT_THAT(lines(callers("Cache.add").callers), ElementsAre("Main.a 3"));
}

TEST_F(CallersTest, SeveralMatchingFunctionsAreOne) {
  fake_.add({kAdd, kFill, kMainA}, 5);
  fake_.add({kFill, kMainB}, 2);
  const CallersResult result = callers("^Cache\\.");
  EXPECT_EQ(samples(result.total), 7u);
  EXPECT_EQ(samples(result.self), 7u);
  EXPECT_THAT(lines(result.callers), ElementsAre("Main.a 5", "Main.b 2"));
  EXPECT_THAT(lines(result.callees), ElementsAre());
  EXPECT_EQ(result.total.location.function, "");
}

TEST_F(CallersTest, HiddenFramesAreNotThere) {
  fake_.profile.hidden = std::make_shared<HideFunction>("List.map");
  fake_.add({kAdd, kMap, kMainA}, 5);
  EXPECT_THAT(lines(callers("Cache.add").callers), ElementsAre("Main.a 5"));
  EXPECT_EQ(samples(callers("List.map").total), 0u);
}

TEST_F(CallersTest, FilesDoNotMatch) {
  fake_.add({kAdd, kMainA}, 5);
  EXPECT_EQ(samples(callers("cache.ml").total), 0u);
}

TEST_F(CallersTest, BadPatternsAreRefused) {
  for (const char* bad : {"", "(", "Cache["}) {
    EXPECT_EQ(callers_of(fake_.profile, {.function = bad}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace memprofd
