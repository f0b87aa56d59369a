// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_asker.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <future>

#include "tests/kit/fake_questions.h"

namespace memprofd::ctl {
namespace {

using memprofd::testing::FakeQuestions;

constexpr int kLongMs = 30'000;

bool readable(int fd, int timeout_ms) {
  pollfd waited{fd, POLLIN, 0};
  return ::poll(&waited, 1, timeout_ms) == 1;
}

TopViewState targets() {
  TopViewState view_state;
  view_state.view = TopView::kTargets;
  return view_state;
}

// Answers when it is released or interrupted.
class SlowQuestions : public FakeQuestions {
 public:
  absl::StatusOr<pb::ListTargetsResponse> list_targets() override {
    asked.set_value();
    go_on.get_future().wait();
    return FakeQuestions::list_targets();
  }
  void interrupt() override { go_on.set_value(); }

  std::promise<void> asked, go_on;
};

TEST(TopAsker, AnswersEachQuestionOnce) {
  TopAsker asker(std::make_unique<FakeQuestions>());
  EXPECT_FALSE(asker.busy());
  for (std::uint64_t number = 5; number < 8; ++number) {
    asker.ask(targets(), number);
    EXPECT_TRUE(asker.busy());
    ASSERT_TRUE(readable(asker.fd(), kLongMs));
    const std::optional<TopAnswer> answer = asker.take();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->number, number);
    EXPECT_TRUE(answer->status.ok());
    EXPECT_EQ(answer->targets.targets_size(), 1);
    EXPECT_FALSE(asker.busy());
    EXPECT_FALSE(asker.take().has_value());
    EXPECT_FALSE(readable(asker.fd(), 0));
  }
}

TEST(TopAsker, DoesNotWaitForTheAnswer) {
  auto questions = std::make_unique<SlowQuestions>();
  SlowQuestions& slow = *questions;
  TopAsker asker(std::move(questions));
  asker.ask(targets(), 1);
  slow.asked.get_future().wait();
  EXPECT_TRUE(asker.busy());
  EXPECT_FALSE(asker.take().has_value());
  EXPECT_FALSE(readable(asker.fd(), 0));
}  // gives the question up: the test ends

}  // namespace
}  // namespace memprofd::ctl
