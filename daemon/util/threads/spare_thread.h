// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <thread>

#include "daemon/util/threads/mutex.h"

namespace memprofd {

// A thread created in advance, for work that must be done even if no other thread can be created.
class SpareThread {
 public:
  SpareThread();
  ~SpareThread();  // waits for the thread's work
  SpareThread(const SpareThread&) = delete;
  SpareThread& operator=(const SpareThread&) = delete;

  // Runs tasks one after the other. The future's destructor does not wait.
  std::future<void> run(std::function<void()> work);

 private:
  void loop();

  Mutex mutex_;
  Condition changed_;
  std::deque<std::packaged_task<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // declared last, because it uses all others
};

}  // namespace memprofd
