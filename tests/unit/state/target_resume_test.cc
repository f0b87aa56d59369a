// SPDX-License-Identifier: Apache-2.0
// A target that resumes from its stored state.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>

#include "tests/kit/stored_target.h"

namespace memprofd {
namespace {

class TargetResumeTest : public StoredTargetTest {
 protected:
  TargetResumeTest() {
    for (int second = 0; second < 40; ++second) program_.run_second();
    for (std::uint32_t i = 0; i < 20; ++i) recording_.alloc(9'000'000 + i, 1 + i % 10);
    recording_.advance(3 * kSecond / 2);
    before_ = snapshot();
    write(before_);
    stored_ = read();
    after_.emplace(*stored_, 90 * kSecond);
  }

  ProfileSnapshot before_;
  ProfileSnapshotPtr stored_;
  std::optional<Recording> after_;
};

TEST_F(TargetResumeTest, CountersContinueAndLiveBlocksAreForgotten) {
  const ProfileSnapshot at_once = after_->snapshot();
  ASSERT_GT(before_.counters.live.samples, 0u);
  EXPECT_EQ(at_once.counters.live.samples, 0u);
  EXPECT_EQ(at_once.counters.all_allocated().words, before_.counters.all_allocated().words);
  ASSERT_EQ(at_once.rows.size(), before_.rows.size());
  std::uint64_t forgotten = 0, live = 0;
  for (std::size_t i = 0; i < before_.rows.size(); ++i) {
    const Counters &now = at_once.rows[i].counters, &then = before_.rows[i].counters;
    EXPECT_EQ(now.allocated.words, then.allocated.words);
    EXPECT_EQ(now.live.samples, 0u);
    for (const auto& entry : now.forgotten.entries()) forgotten += entry.n;
    for (const auto& entry : then.forgotten.entries()) forgotten -= entry.n;
    live += then.live.samples;
  }
  EXPECT_EQ(forgotten, live) << "each at its age";
  EXPECT_GT(at_once.history.sessions(), before_.history.sessions());
}

TEST_F(TargetResumeTest, ThePastStaysWhatItWas) {
  RandomProgram more(*after_, 2, 1'000'000);
  for (int second = 0; second < 40; ++second) more.run_second();
  const ProfileSnapshot now = after_->snapshot();
  EXPECT_EQ(now.attached_ns, before_.attached_ns);
  const RangeCounter then_counter(before_), now_counter(now);
  std::map<std::uint32_t, std::size_t> row_of;
  for (std::size_t row = 0; row < now.rows.size(); ++row) row_of[now.rows[row].id.value()] = row;
  for (const HistoryWindowPtr& window : before_.history.tiers[1]) {
    const auto live = then_counter.live_at(window->end_ns());
    const auto live_now = now_counter.live_at(window->end_ns());
    const auto flows = then_counter.flows(window->begin_ns(), window->end_ns());
    const auto flows_now = now_counter.flows(window->begin_ns(), window->end_ns());
    for (std::size_t row = 0; row < before_.rows.size(); ++row) {
      const std::size_t same = row_of.at(before_.rows[row].id.value());
      EXPECT_NEAR(live[row].samples, live_now[same].samples, 1e-6);
      EXPECT_NEAR(live[row].words, live_now[same].words, 1e-6 * live[row].words + 1e-3);
      expect_same_flows(flows_now[same], flows[row], false);
    }
  }
}

// Old and new classes are kept apart, and counts add up.
TEST_F(TargetResumeTest, IdsDoNotClash) {
  const std::uint64_t samples = before_.counters.all_allocated().samples;
  after_->alloc(5'000'000, 77, 2);  // a callstack that was not there before
  const ProfileSnapshot now = after_->snapshot();
  EXPECT_EQ(now.rows.size(), before_.rows.size() + 1);
  EXPECT_EQ(now.rows.back().callstack->entries.front(), 77u);
  EXPECT_EQ(now.counters.all_allocated().samples, samples + 2);
  EXPECT_EQ(now.rows.back().counters.allocated.samples, 2u);
}

// A second restart, and a third.
TEST_F(TargetResumeTest, ResumesAgain) {
  ProfileSnapshot last = before_;
  for (int restart = 0; restart < 3; ++restart) {
    TargetWriter writer(path_);
    Recording recording(*read(), 5 * kSecond);
    RandomProgram more(recording, restart + 5, 10'000'000 + restart * 1'000'000);
    for (int second = 0; second < 9; ++second) more.run_second();
    last = recording.snapshot();
    last.info.pid = 42;
    ASSERT_TRUE(writer.write(last, kRoom).ok());
    expect_same(*read(), last);
    expect_same_history(*read(), last);
  }
}

}  // namespace
}  // namespace memprofd
