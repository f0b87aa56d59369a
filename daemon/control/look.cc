// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/look.h"

#include <pthread.h>

#include <condition_variable>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/threads/start_thread.h"

namespace memprofd {
namespace {

struct Threads {
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t count = 0;  // under mutex

  void end_one() {
    std::lock_guard lock(mutex);
    --count;
    ended.notify_all();
  }
};

// Never destroyed: a thread that was given up may outlive main().
Threads& threads() {
  static auto* const threads = new Threads;
  return *threads;
}

// The work is gone when the thread is counted as ended.
void run(std::function<void()> work) {
  ::pthread_setname_np(::pthread_self(), "memprofd-look");
  std::exchange(work, nullptr)();
  threads().end_one();
}

}  // namespace

absl::Status look_took_too_long(int pid) {
  return absl::DeadlineExceededError(absl::StrCat(
      "pid ", pid, ": to look at the program took longer than ", kLookBudget.count(),
      " s and was given up; try again when the file system of its files answers (FUSE, NFS), or "
      "with fewer plugins"));
}

absl::Status LookThreads::start(std::function<void()> work) {
  {
    std::lock_guard lock(threads().mutex);
    if (threads().count >= kMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kMax,
                       " looks at programs are under way or hang: try again later, and find the "
                       "file system that does not answer (FUSE, NFS) if this stays"));
    }
    ++threads().count;
  }
  auto thread = start_thread("to look at a program",
                             [work = std::move(work)]() mutable { run(std::move(work)); });
  if (thread.ok()) {
    thread->detach();
  } else {
    threads().end_one();
  }
  return thread.status();
}

std::size_t LookThreads::count() {
  std::lock_guard lock(threads().mutex);
  return threads().count;
}

bool LookThreads::wait_for_all(std::chrono::milliseconds patience) {
  std::unique_lock lock(threads().mutex);
  return threads().ended.wait_for(lock, patience, [] { return threads().count == 0; });
}

}  // namespace memprofd
