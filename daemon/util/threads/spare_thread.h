// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <thread>

#include "daemon/util/threads/mutex.h"

namespace memprofd {

// A thread that is there before it is needed, for what has to be done when no other can be had.
class SpareThread {
 public:
  SpareThread();
  ~SpareThread();  // waits for what it was given
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
