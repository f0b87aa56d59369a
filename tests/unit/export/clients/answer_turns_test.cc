// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/clients/answer_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/util/threads/mutex.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::hours kForever{1};

TEST(AnswerTurns, ALimitedNumberAtOnceAndTheOthersLater) {
  AnswerTurns turns({.at_once = 2, .waiting = 50, .patience = kForever});
  std::atomic<int> now = 0, most = 0, answered = 0;
  {
    std::vector<std::jthread> askers;
    for (int i = 0; i < 20; ++i) {
      askers.emplace_back([&] {
        const auto turn = turns.take();
        ASSERT_TRUE(turn.ok());
        const int at_once = ++now;
        for (int seen = most; seen < at_once && !most.compare_exchange_weak(seen, at_once);) {
        }
        std::this_thread::sleep_for(milliseconds(2));
        --now;
        ++answered;
      });
    }
  }
  EXPECT_EQ(answered, 20);
  EXPECT_EQ(most, 2);
}

TEST(AnswerTurns, InTheOrderOfTheirArrival) {
  AnswerTurns turns({.at_once = 1, .patience = kForever});
  std::optional<AnswerTurns::Turn> first(*turns.take());
  std::vector<int> order;
  std::vector<std::jthread> askers;
  for (int i = 0; i < 5; ++i) {
    askers.emplace_back([&, i] {
      const auto turn = turns.take();
      order.push_back(i);
    });
    while (turns.waiting() <= static_cast<std::size_t>(i)) std::this_thread::yield();
  }
  first.reset();
  askers.clear();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
}

TEST(AnswerTurns, AClientThatWaitsTooLongOrExceedsTheLimitGetsAnError) {
  AnswerTurns turns({.at_once = 1, .waiting = 1, .patience = milliseconds(20)});
  std::optional<AnswerTurns::Turn> first(*turns.take());
  EXPECT_EQ(turns.take().status(),
            absl::ResourceExhaustedError(
                "memprofd has been busy with other questions for 0 s: ask again later"));
  AnswerTurns patient({.at_once = 1, .waiting = 1, .patience = kForever});
  std::optional<AnswerTurns::Turn> one(*patient.take());
  std::jthread waits([&] { EXPECT_TRUE(patient.take().ok()); });
  while (patient.waiting() == 0) std::this_thread::yield();
  EXPECT_EQ(patient.take().status(),
            absl::ResourceExhaustedError(
                "1 questions wait for an answer already, and that is the limit: ask again later"));
  one.reset();
}

TEST(AnswerTurns, AUserLeavesSomePlacesToTheOthers) {
  AnswerTurns turns({.at_once = 1, .waiting = 4, .patience = kForever});
  std::optional<AnswerTurns::Turn> first(*turns.take("user 7"));
  std::vector<std::jthread> waiting;
  const auto wait_as = [&](const std::string& user) {
    const std::size_t before = turns.waiting();
    waiting.emplace_back([&turns, user] { EXPECT_TRUE(turns.take(user).ok()); });
    while (turns.waiting() == before) std::this_thread::yield();
  };
  for (int i = 0; i < 2; ++i) wait_as("user 7");
  EXPECT_EQ(turns.take("user 7").status(),
            absl::ResourceExhaustedError(
                "2 questions wait for an answer already, 2 of them of user 7, and that is the "
                "limit for one user: ask again later"));
  wait_as("user 8");
  wait_as("");
  first.reset();
}

TEST(AnswerTurns, AUserWithoutATurnPrecedesThoseWithOne) {
  AnswerTurns turns({.at_once = 2, .waiting = 16, .patience = kForever});
  std::optional<AnswerTurns::Turn> first(*turns.take("user 7")), second(*turns.take("user 7"));
  Mutex mutex;
  std::vector<std::string> order ABSL_GUARDED_BY(mutex);
  std::vector<std::jthread> askers;
  for (const char* user : {"user 7", "user 7", ""}) {
    const std::size_t before = turns.waiting();
    askers.emplace_back([&, user] {
      const auto turn = turns.take(user);
      const MutexLock lock(mutex);
      order.emplace_back(user);
    });
    while (turns.waiting() == before) std::this_thread::yield();
  }
  first.reset();
  // One at a time as long as "second" has the other turn.
  const auto somebody_was_first = [&] {
    const MutexLock lock(mutex);
    return !order.empty();
  };
  while (!somebody_was_first()) std::this_thread::yield();
  second.reset();
  askers.clear();
  const MutexLock lock(mutex);
  EXPECT_EQ(order.front(), "");
}

TEST(AnswerTurns, MemprofdItselfIsServedLast) {
  AnswerTurns turns({.at_once = 1, .waiting = 4});
  {
    const auto turn = turns.take_if_idle();
    EXPECT_TRUE(turn.has_value());
    EXPECT_FALSE(turns.take_if_idle().has_value());
  }
  EXPECT_TRUE(turns.take_if_idle().has_value());
}

}  // namespace
}  // namespace memprofd
