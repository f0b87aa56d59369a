// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/heap_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "tests/kit/fake_service.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using testing::FakeService;
using testing::fixed_target;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class HeapWatchTest : public ::testing::Test {
 protected:
  // Runs the watch until done().
  template <typename Done>
  void watch_until(const std::string& rule, Done done, double rest_seconds = 0) {
    HeapWatch watch(service_, {.rules = {*parse_heap_rule(rule)},
                               .files = {.directory = folder_.path()},
                               .rest_seconds = rest_seconds,
                               .count = [this](const absl::Status&) { ++refused_; },
                               .interval = milliseconds(1)});
    while (!done()) std::this_thread::sleep_for(milliseconds(1));
  }
  std::size_t asked() { return service_.calls().size(); }

  FakeService service_{{fixed_target()}};
  const TempDir folder_;
  std::atomic<int> refused_{0};
};

TEST_F(HeapWatchTest, TakesOneIntoAFile) {
  watch_until("live>1KiB",
              [&] { return !folder_.names().empty() && folder_.names()[0].ends_with(".heap"); });
  EXPECT_THAT(service_.calls(), ::testing::ElementsAre("snapshot 4242 0.05"));
  EXPECT_THAT(folder_.names()[0], MatchesRegex("auto-server_exe-4242-.*\\.heap"));
  EXPECT_EQ("onetwo", read_file(folder_.path() + "/" + folder_.names()[0]));
}

TEST_F(HeapWatchTest, ABrokenRuleTakesOne) {
  const RuleBook::Target target{4242, fixed_target()->attached_ns};
  const auto book = std::make_shared<RuleBook>();
  book->note(target, {.rule = {.name = "a", .snapshot = true}, .verdict = RuleVerdict::kBroken});
  HeapWatch watch(service_, {.files = {.directory = folder_.path()},
                             .rest_seconds = 0,
                             .book = book,
                             .interval = milliseconds(1)});
  while (book->wants_snapshot(target)) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(folder_.names().size(), 1u);
  EXPECT_EQ(asked(), 1u);
}

TEST_F(HeapWatchTest, ARefusedOneIsTriedAgainAfterARest) {
  service_.fail_with(absl::OutOfRangeError("too long"));
  watch_until("live>1KiB", [&] { return asked() >= 3; });
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(HeapWatchTest, OneThatEndsInTheMiddleLeavesNothing) {
  service_.break_snapshots_with(absl::DataLossError("does not add up"));
  watch_until("live>1KiB", [&] { return asked() >= 2; });
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(HeapWatchTest, OneThatTakesLongDoesNotHoldUpTheOthers) {
  service_.set({fixed_target(4242), fixed_target(4243)});
  std::latch release(1);
  service_.on_heap = [&](int pid) {
    if (pid == 4242) release.wait();
  };
  watch_until("live>1KiB", [&] {
    const auto names = folder_.names();
    const bool is_there = std::ranges::any_of(names, [](const std::string& name) {
      return name.find("-4243-") != name.npos && name.ends_with(".heap");
    });
    if (is_there) release.count_down();
    return is_there;
  });
}

TEST_F(HeapWatchTest, WhereThereIsNoRoomTheProgramIsNotAsked) {
  folder_.write("auto-full.heap", std::string(10, 'x'));
  HeapWatch watch(service_, {.rules = {*parse_heap_rule("live>1KiB")},
                             .files = {.directory = folder_.path(), .max_bytes = 10},
                             .rest_seconds = 0,
                             .count = [this](const absl::Status&) { ++refused_; },
                             .interval = milliseconds(1)});
  while (refused_ < 2) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(0u, asked());
}

}  // namespace
}  // namespace memprofd
