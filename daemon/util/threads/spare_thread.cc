// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/threads/spare_thread.h"

#include <pthread.h>

#include <utility>

namespace memprofd {

SpareThread::SpareThread() : thread_([this] { loop(); }) {}

SpareThread::~SpareThread() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::future<void> SpareThread::run(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> done = task.get_future();
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
  return done;
}

void SpareThread::loop() {
  ::pthread_setname_np(::pthread_self(), "spare");
  MutexLock lock(mutex_);
  for (;;) {
    while (!stop_ && tasks_.empty()) changed_.wait(mutex_);
    if (tasks_.empty()) return;
    std::packaged_task<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace memprofd
