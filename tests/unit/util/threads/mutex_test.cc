// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/threads/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace memprofd {
namespace {

using namespace std::chrono_literals;

TEST(TimedMutexTest, AWaiterGivesUpWhileTheMutexIsHeld) {
  TimedMutex mutex;
  const MutexLock lock(mutex);
  std::jthread([&mutex] { EXPECT_FALSE(mutex.try_lock_for(1ms)); });
}

TEST(TimedMutexTest, OneHoldsItAtATime) {
  TimedMutex mutex;
  int count ABSL_GUARDED_BY(mutex) = 0;
  std::jthread patient([&] {
    for (int i = 0; i < 1000; ++i) {
      const MutexLock lock(mutex);
      ++count;
    }
  });
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(mutex.try_lock_for(1min));
    const MutexLock lock(mutex, std::adopt_lock);
    ++count;
  }
  patient.join();
  const MutexLock lock(mutex);
  EXPECT_EQ(count, 2000);
}

TEST(ConditionTest, WaitsUntilItIsNotified) {
  Mutex mutex;
  Condition changed;
  std::vector<int> told ABSL_GUARDED_BY(mutex);
  const std::jthread teller([&] {
    for (int i = 0; i < 2; ++i) {
      const MutexLock lock(mutex);
      told.push_back(i);
      changed.notify_all();
    }
  });
  const MutexLock lock(mutex);
  while (told.empty()) changed.wait(mutex);
  while (told.size() < 2) EXPECT_TRUE(changed.wait_until(mutex, Condition::Clock::now() + 1h));
}

TEST(ConditionTest, SaysThatTheTimeHasCome) {
  Mutex mutex;
  Condition changed;
  const MutexLock lock(mutex);
  while (changed.wait_until(mutex, Condition::Clock::now() + 1ms)) {
  }
}

TEST(MutexLockTest, ReleasesTheMutexWhileItWaits) {
  Mutex mutex;
  MutexLock lock(mutex);
  lock.unlock();
  std::jthread([&mutex] { const MutexLock other(mutex); });
  lock.lock();
}

TEST(SharedMutexTest, ManyReadAtOnce) {
  SharedMutex mutex;
  const ReaderLock lock(mutex);
  std::jthread([&mutex] { const ReaderLock other(mutex); });
}

}  // namespace
}  // namespace memprofd
