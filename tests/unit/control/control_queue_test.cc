// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/control_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/status/statusor.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;
using OkOrNot = Answer<absl::Status>;

void agree(OkOrNot answer) { answer.give(absl::OkStatus()); }

// The control thread, until the queue's owner ends it.
class ControlQueueTest : public ::testing::Test {
 protected:
  void serve(int requests) {
    while (requests > 0) {
      for (const auto& request : queue_->wait_until(Clock::now() + std::chrono::hours(1))) {
        request();
        --requests;
      }
    }
  }
  std::shared_ptr<ControlQueue> queue_ = std::make_shared<ControlQueue>();
};

TEST_F(ControlQueueTest, AnswersWithTheResult) {
  std::jthread control([this] { serve(2); });
  const auto number =
      queue_->ask<absl::StatusOr<int>>([](Answer<absl::StatusOr<int>> answer) { answer.give(7); });
  EXPECT_EQ(*number, 7);
  EXPECT_EQ(queue_->ask<absl::Status>([](OkOrNot answer) { answer.give(absl::NotFoundError("x")); })
                .code(),
            absl::StatusCode::kNotFound);
}

// Objects owned by the request are freed when it runs, not before.
TEST_F(ControlQueueTest, ALongWaitReturnsAnErrorAndNothingDangles) {
  auto owned = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = owned;
  const absl::Status late = queue_->ask<absl::Status>(
      [owned = std::move(owned)](OkOrNot answer) {
        ++*owned;
        answer.give(absl::OkStatus());
      },
      std::chrono::milliseconds(1));
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_EQ(*alive.lock(), 0);
  auto requests = queue_->wait_until(Clock::now());
  ASSERT_EQ(requests.size(), 1u);
  requests.front()();
  EXPECT_EQ(*alive.lock(), 1);
  requests.clear();
  EXPECT_TRUE(alive.expired());
}

TEST_F(ControlQueueTest, CloseAnswersWaitingAndLaterRequests) {
  absl::Status waited;
  std::jthread caller([&] { waited = queue_->ask<absl::Status>(agree); });
  ControlQueue::Requests none;
  while (!queue_->waiting()) std::this_thread::yield();
  queue_->close();
  caller.join();
  EXPECT_EQ(waited.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(queue_->ask<absl::Status>(agree).code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(queue_->post([] {}));
}

TEST_F(ControlQueueTest, AWakeUpIsNotLost) {
  queue_->wake();
  EXPECT_TRUE(queue_->wait_until(Clock::now() + std::chrono::hours(1)).empty());
}

// A request may leave it to another.
TEST_F(ControlQueueTest, AnAnswerMayComeLater) {
  std::optional<OkOrNot> kept;
  std::jthread control([&] {
    serve(1);
    kept->give(absl::NotFoundError("later"));
  });
  const absl::Status told =
      queue_->ask<absl::Status>([&](OkOrNot answer) { kept.emplace(std::move(answer)); });
  EXPECT_EQ(told.message(), "later");
}

TEST(Answer, IsGivenOnceAndAlways) {
  std::promise<absl::Status> promise;
  auto result = promise.get_future();
  OkOrNot answer(std::move(promise));
  OkOrNot moved = std::move(answer);
  answer.give(absl::NotFoundError("moved from"));
  moved.give(absl::NotFoundError("first"));
  moved.give(absl::NotFoundError("second"));
  EXPECT_EQ(result.get().message(), "first");

  std::promise<absl::Status> dropped;
  auto at_the_end = dropped.get_future();
  { const OkOrNot unanswered(std::move(dropped)); }
  EXPECT_EQ(at_the_end.get().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace memprofd
