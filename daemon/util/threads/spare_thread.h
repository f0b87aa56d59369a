// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <thread>

#include "daemon/util/threads/mutex.h"

namespace memprofd {

// A thread that is created before it is needed, for work that must be done when no other thread can
// be created.
class SpareThread {
 public:
  SpareThread();
  ~SpareThread();  // waits for the thread's work
  SpareThread(const SpareThread&) = delete;
  SpareThread& operator=(const SpareThread&) = delete;

  // One after the other. The future's destructor does not wait.
  std::future<void> run(std::function<void()> work);

 private:
  void loop();

  Mutex mutex_;
  Condition changed_;
  std::deque<std::packaged_task<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: uses all others
};

}  // namespace memprofd
