// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "daemon/util/asker.h"

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

TEST_F(LookTest, AUserLeavesSomeToTheOthers) {
  Gate gate;
  std::vector<Look<int>> looks;
  const auto look_as = [&](const std::string& user) {
    const Asker asker(user);
    auto look = Look<int>::start(gate.work(0), [] {});
    if (look.ok()) looks.push_back(*std::move(look));
    return look.status();
  };
  for (std::size_t i = 0; i < LookThreads::kMaxOfUser; ++i) EXPECT_TRUE(look_as("user 1000").ok());
  EXPECT_EQ(look_as("user 1000").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(look_as("user 1001").ok());
  EXPECT_TRUE(look_as("").ok());
  gate.open();
}

TEST_F(LookTest, WhatThrowsIsOverWithoutAResult) {
  auto look =
      Look<int>::start([](const std::stop_token&) -> int { throw std::bad_alloc(); }, [] {});
  ASSERT_TRUE(look.ok()) << look.status();
  EXPECT_FALSE(look->wait());
  EXPECT_TRUE(look->over_budget());
}

TEST(LookCpu, IsThatOfOneThreadOfThisProcess) {
  const auto before = cpu_time_of_thread(::gettid());
  while (cpu_time_of_thread(::gettid()) - before < std::chrono::milliseconds(20)) {
  }
  EXPECT_EQ(cpu_time_of_thread(1).count(), 0) << "another process";
}

TEST_F(LookTest, WhoAsksForTheSameWaitsForTheSameLook) {
  JoinedLooks<int, int> looks;
  Gate gate;
  std::atomic<int> begun = 0;
  const auto work = [&](const std::stop_token& stop) {
    ++begun;
    return gate.work(7)(stop);
  };
  std::vector<std::jthread> askers;
  std::atomic<int> asking = 0, answered = 0;
  for (int i = 0; i < 40; ++i) {
    askers.emplace_back([&] {
      ++asking;
      const auto found = looks.ask(1, 1, work);
      answered += found.ok() && *found == 7;
    });
  }
  while (asking < 40 || begun == 0) std::this_thread::yield();
  EXPECT_EQ(*looks.ask(2, 2, [](const std::stop_token&) { return 2; }), 2) << "of another program";
  gate.open();
  askers.clear();
  EXPECT_EQ(answered, 40);
  EXPECT_LT(begun, 40);
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
  EXPECT_THAT(std::string(refused.status().message()), ::testing::HasSubstr("32 inspections"));
  gate.open();
}

}  // namespace
}  // namespace memprofd
