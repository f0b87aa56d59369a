// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "daemon/util/scoped_user.h"

namespace memprofd {
namespace {

using std::chrono::seconds;

// Work that blocks until it is released.
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

class InspectionTest : public ::testing::Test {
 protected:
  ~InspectionTest() override { EXPECT_TRUE(InspectionThreads::wait_for_all(seconds(30))); }
  std::function<void()> when_done() {
    return [this] { done_.set_value(); };
  }
  std::promise<void> done_;
};

TEST_F(InspectionTest, TheResultIsTakenWhenItIsDone) {
  Gate gate;
  auto inspection = Inspection<int>::start(gate.work(7), when_done());
  ASSERT_TRUE(inspection.ok()) << inspection.status();
  EXPECT_FALSE(inspection->done());
  EXPECT_EQ(InspectionThreads::count(), 1u);
  gate.open();
  done_.get_future().wait();
  ASSERT_TRUE(inspection->done());
  EXPECT_EQ(inspection->take(), 7);
}

TEST_F(InspectionTest, GivingUpDoesNotWaitAndTheThreadCleansUp) {
  std::promise<void> running;
  auto found = std::make_shared<int>(7);
  const std::weak_ptr<int> alive = found;
  {
    auto inspection = Inspection<std::shared_ptr<int>>::start(
        [&running, found = std::move(found)](const std::stop_token& stop) {
          running.set_value();
          while (!stop.stop_requested()) std::this_thread::yield();
          return found;
        },
        when_done());
    ASSERT_TRUE(inspection.ok()) << inspection.status();
    running.get_future().wait();
  }
  done_.get_future().wait();
  EXPECT_TRUE(alive.expired());
}

TEST_F(InspectionTest, AHangingOneIsNotWaitedFor) {
  Gate gate;
  { auto inspection = Inspection<int>::start(gate.work(7), when_done()); }
  EXPECT_FALSE(InspectionThreads::wait_for_all(std::chrono::milliseconds(1)));
  gate.open();
}

TEST_F(InspectionTest, AssigningGivesUpTheOneBefore) {
  Gate gate;
  std::promise<void> told;
  auto inspection = Inspection<int>::start(
      [&told](const std::stop_token& stop) {
        while (!stop.stop_requested()) std::this_thread::yield();
        told.set_value();
        return 1;
      },
      [] {});
  ASSERT_TRUE(inspection.ok());
  auto second = Inspection<int>::start(gate.work(2), when_done());
  ASSERT_TRUE(second.ok());
  *inspection = *std::move(second);
  second = absl::UnavailableError("");  // it holds the first one now
  told.get_future().wait();
  gate.open();
  done_.get_future().wait();
  EXPECT_EQ(inspection->take(), 2);
}

TEST_F(InspectionTest, AUserLeavesSomeToTheOthers) {
  Gate gate;
  std::vector<Inspection<int>> inspections;
  const auto inspect_as = [&](const std::string& user) {
    const ScopedUser asker(user);
    auto inspection = Inspection<int>::start(gate.work(0), [] {});
    if (inspection.ok()) inspections.push_back(*std::move(inspection));
    return inspection.status();
  };
  for (std::size_t i = 0; i < InspectionThreads::kMaxOfUser; ++i)
    EXPECT_TRUE(inspect_as("user 1000").ok());
  EXPECT_EQ(inspect_as("user 1000").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(inspect_as("user 1001").ok());
  EXPECT_TRUE(inspect_as("").ok());
  gate.open();
}

TEST_F(InspectionTest, AnExceptionEndsItWithoutAResult) {
  auto inspection =
      Inspection<int>::start([](const std::stop_token&) -> int { throw std::bad_alloc(); }, [] {});
  ASSERT_TRUE(inspection.ok()) << inspection.status();
  EXPECT_FALSE(inspection->wait());
  EXPECT_TRUE(inspection->over_budget());
}

TEST(LookCpu, IsThatOfOneThreadOfThisProcess) {
  const auto before = cpu_time_of_thread(::gettid());
  while (cpu_time_of_thread(::gettid()) - before < std::chrono::milliseconds(20)) {
  }
  EXPECT_EQ(cpu_time_of_thread(1).count(), 0) << "another process";
}

TEST_F(InspectionTest, EqualRequestsShareAnInspection) {
  JoinedInspections<int, int> inspections;
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
      const auto found = inspections.ask(1, 1, work);
      answered += found.ok() && *found == 7;
    });
  }
  while (asking < 40 || begun == 0) std::this_thread::yield();
  EXPECT_EQ(*inspections.ask(2, 2, [](const std::stop_token&) { return 2; }), 2)
      << "of another program";
  gate.open();
  askers.clear();
  EXPECT_EQ(answered, 40);
  EXPECT_LT(begun, 40);
}

TEST_F(InspectionTest, TheirNumberIsLimited) {
  Gate gate;
  std::vector<Inspection<int>> inspections;
  for (std::size_t i = 0; i < InspectionThreads::kMax; ++i) {
    auto inspection = Inspection<int>::start(gate.work(0), [] {});
    ASSERT_TRUE(inspection.ok()) << inspection.status();
    inspections.push_back(*std::move(inspection));
  }
  inspections.clear();  // given up, and still there
  const auto refused = Inspection<int>::start(gate.work(0), [] {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), ::testing::HasSubstr("32 inspections"));
  gate.open();
}

}  // namespace
}  // namespace memprofd
