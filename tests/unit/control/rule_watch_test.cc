// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rule_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/kit/fake_service.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using testing::FakeService;
using testing::fixed_target;
using ::testing::HasSubstr;

class RuleWatchTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<RuleWatch>> open(const std::string& rules,
                                                  bool takes_snapshots = false) {
    return RuleWatch::open(service_,
                           {.file = folder_.write("rules.yaml", rules),
                            .takes_snapshots = takes_snapshots,
                            .interval = milliseconds(1)},
                           book_);
  }
  // {rule: true if it is violated}
  std::map<std::string, bool> broken() const {
    std::map<std::string, bool> result;
    for (const auto& [rule, state] : book_->of(target_)) {
      result[rule] = state.verdict == RuleVerdict::kBroken;
    }
    return result;
  }
  void wait_for(const std::map<std::string, bool>& expected) const {
    while (broken() != expected) std::this_thread::sleep_for(milliseconds(1));
  }

  FakeService service_{{fixed_target()}};
  const RuleBook::Target target_{4242, fixed_target()->attached_ns};
  const TempDir folder_;
  const std::shared_ptr<RuleBook> book_ = std::make_shared<RuleBook>();
};

TEST_F(RuleWatchTest, ChecksWhatTheFileSays) {
  const auto watch = open(
      "rules:\n  - max-allocated: 1\n    name: low\n  - max-allocated: 1TiB\n    name: high\n"
      "  - max-allocated: 0\n    program: another\n");
  ASSERT_TRUE(watch.ok()) << watch.status();
  wait_for({{"low", true}, {"high", false}});
}

TEST_F(RuleWatchTest, ABadFileIsRefusedAndLeavesTheRulesAsTheyWereWhenItIsReadAgain) {
  EXPECT_FALSE(open("rules: 3\n").ok());
  const auto watch = open("rules:\n  - max-allocated: 0\n    name: one\n");
  ASSERT_TRUE(watch.ok()) << watch.status();
  wait_for({{"one", true}});
  folder_.write("rules.yaml", "rules:\n  - max: 0\n");
  EXPECT_THAT(std::string((*watch)->reload().message()), HasSubstr("line 2: unexpected max"));
  folder_.write("rules.yaml", "rules:\n  - max-allocated: 0\n    name: two\n");
  EXPECT_TRUE((*watch)->reload().ok());
  wait_for({{"two", true}});
}

TEST_F(RuleWatchTest, ARuleMayAskForSnapshotsWhereTheyAreKept) {
  const char* const rules = "rules:\n  - max-allocated: 0\n    name: a\n    snapshot: true\n";
  EXPECT_THAT(std::string(open(rules).status().message()), HasSubstr("--snapshot.directory"));
  const auto watch = open(rules, true);
  ASSERT_TRUE(watch.ok()) << watch.status();
  wait_for({{"a", true}});
  EXPECT_EQ(book_->wants_snapshot(target_), "a");
}

TEST(RuleBook, ABrokenRuleAsksForOneSnapshotUntilItIsKeptAgain) {
  RuleBook book;
  const RuleBook::Target target{1, 2};
  const auto note = [&](RuleVerdict verdict) {
    return book.note(target, {.rule = {.name = "a", .snapshot = true}, .verdict = verdict});
  };
  EXPECT_EQ(note(RuleVerdict::kHolds), std::nullopt);
  EXPECT_EQ(book.wants_snapshot(target), std::nullopt);
  EXPECT_EQ(note(RuleVerdict::kBroken), RuleVerdict::kHolds);
  EXPECT_EQ(book.wants_snapshot(target), "a");
  book.snapshot_taken(target);
  EXPECT_EQ(note(RuleVerdict::kBroken), RuleVerdict::kBroken);
  EXPECT_EQ(book.wants_snapshot(target), std::nullopt);
  note(RuleVerdict::kHolds);
  note(RuleVerdict::kBroken);
  EXPECT_EQ(book.wants_snapshot(target), "a");
  note(RuleVerdict::kHolds);
  EXPECT_EQ(book.wants_snapshot(target), std::nullopt) << "it came too late";
  book.keep_only({}, {"a"});
  EXPECT_TRUE(book.of(target).empty());
}

}  // namespace
}  // namespace memprofd
