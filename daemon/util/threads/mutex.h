// SPDX-License-Identifier: Apache-2.0
// Mutexes that clang checks: members are declared ABSL_GUARDED_BY(mutex_), functions that expect
// the lock ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_), and `make lint` refuses any other access.
//
//   while (!done_) changed_.wait(mutex_);
//
// They wrap the C library's mutexes, not abseil's: ThreadSanitizer understands them in any library,
// and setting the clock disturbs the waits of abseil's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace memprofd {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

// Any number of threads may read at the same time.
class ABSL_LOCKABLE SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  void lock_shared() ABSL_SHARED_LOCK_FUNCTION() { mutex_.lock_shared(); }
  void unlock_shared() ABSL_UNLOCK_FUNCTION() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds the mutex until the end of the scope, except between unlock() and lock().
template <typename AnyMutex>
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(AnyMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    lock();
  }
  // Takes ownership of a mutex that is already locked.
  MutexLock(AnyMutex& mutex, std::adopt_lock_t /*held*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex)
      : mutex_(mutex), held_(true) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() ABSL_UNLOCK_FUNCTION() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  AnyMutex& mutex_;
  bool held_ = false;
};

class ABSL_SCOPED_LOCKABLE ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) ABSL_SHARED_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Waits may end spuriously: test the condition in a loop, where clang can see that the mutex is
// held (it does not analyse a predicate).
class Condition {
 public:
  using Clock = std::chrono::steady_clock;

  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  void wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    changed_.wait(held);
    held.release();
  }
  // Returns false if the time was reached.
  bool wait_until(Mutex& mutex, Clock::time_point time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    const bool in_time = changed_.wait_until(held, time) == std::cv_status::no_timeout;
    held.release();
    return in_time;
  }

 private:
  std::condition_variable changed_;
};

// A mutex that may be held for long; waiting for it can time out.
class ABSL_LOCKABLE TimedMutex {
 public:
  TimedMutex() = default;
  TimedMutex(const TimedMutex&) = delete;
  TimedMutex& operator=(const TimedMutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    const MutexLock lock(mutex_);
    while (held_) freed_.wait(mutex_);
    held_ = true;
  }
  bool try_lock_for(std::chrono::nanoseconds patience) ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    const auto until = Condition::Clock::now() + patience;
    const MutexLock lock(mutex_);
    while (held_ && freed_.wait_until(mutex_, until)) {
    }
    return !std::exchange(held_, true);
  }
  void unlock() ABSL_UNLOCK_FUNCTION() {
    const MutexLock lock(mutex_);
    held_ = false;
    freed_.notify_one();
  }

 private:
  Mutex mutex_;
  Condition freed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace memprofd
