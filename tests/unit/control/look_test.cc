// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

namespace memprofd {
namespace {

using std::chrono::seconds;

// Work that stands still until it is let go.
class Gate {
 public:
  void open() { promise_.set_value(); }
  std::function<int(std::stop_token)> work(int result) const {
    return [future = future_, result](const std::stop_token&) {
      future.wait();
      return result;
    };
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future();
};

class LookTest : public ::testing::Test {
 protected:
  ~LookTest() override { EXPECT_TRUE(LookThreads::wait_for_all(seconds(30))); }
  std::function<void()> when_done() {
    return [this] { done_.set_value(); };
  }
  std::promise<void> done_;
};

TEST_F(LookTest, WhatItHasFoundIsTakenOnceItIsDone) {
  Gate gate;
  auto look = Look<int>::start(gate.work(7), when_done());
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_FALSE(look->done());
  EXPECT_EQ(LookThreads::count(), 1u);
  gate.open();
  done_.get_future().wait();
  ASSERT_TRUE(look->done());
  EXPECT_EQ(look->take(), 7);
}

TEST_F(LookTest, WhoGivesUpWaitsForNothingAndTheThreadIsToldAndCleansUp) {
  std::promise<void> running;
  auto found = std::make_shared<int>(7);
  const std::weak_ptr<int> alive = found;
  {
    auto look = Look<std::shared_ptr<int>>::start(
        [&running, found = std::move(found)](const std::stop_token& stop) {
          running.set_value();
          while (!stop.stop_requested()) std::this_thread::yield();
          return found;
        },
        when_done());
    ASSERT_TRUE(look.ok()) << look.status();
    running.get_future().wait();
  }
  done_.get_future().wait();
  EXPECT_TRUE(alive.expired());
}

TEST_F(LookTest, NobodyWaitsForOneThatHangs) {
  Gate gate;
  { auto look = Look<int>::start(gate.work(7), when_done()); }
  EXPECT_FALSE(LookThreads::wait_for_all(std::chrono::milliseconds(1)));
  gate.open();
}

TEST_F(LookTest, AssigningGivesUpTheOneBefore) {
  Gate gate;
  std::promise<void> told;
  auto look = Look<int>::start(
      [&told](const std::stop_token& stop) {
        while (!stop.stop_requested()) std::this_thread::yield();
        told.set_value();
        return 1;
      },
      [] {});
  ASSERT_TRUE(look.ok());
  auto second = Look<int>::start(gate.work(2), when_done());
  ASSERT_TRUE(second.ok());
  *look = *std::move(second);
  second = absl::UnavailableError("");  // it holds the first one now
  told.get_future().wait();
  gate.open();
  done_.get_future().wait();
  EXPECT_EQ(look->take(), 2);
}

TEST_F(LookTest, ThereAreSoManyAtMost) {
  Gate gate;
  std::vector<Look<int>> looks;
  for (std::size_t i = 0; i < LookThreads::kMax; ++i) {
    auto look = Look<int>::start(gate.work(0), [] {});
    ASSERT_TRUE(look.ok()) << look.status();
    looks.push_back(*std::move(look));
  }
  looks.clear();  // given up, and still there
  const auto refused = Look<int>::start(gate.work(0), [] {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), ::testing::HasSubstr("32 looks"));
  gate.open();
}

}  // namespace
}  // namespace memprofd
