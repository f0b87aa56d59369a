// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/look.h"

#include <pthread.h>

#include <condition_variable>
#include <cstring>

#include "absl/strings/str_cat.h"

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

void* run(void* argument) {
  {
    const std::unique_ptr<std::function<void()>> work(
        static_cast<std::function<void()>*>(argument));
    ::pthread_setname_np(::pthread_self(), "memprofd-look");
    (*work)();
  }
  threads().end_one();
  return nullptr;
}

// std::thread would throw.
int start_detached(std::function<void()> work) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  auto argument = std::make_unique<std::function<void()>>(std::move(work));
  pthread_t thread;
  const int error = ::pthread_create(&thread, &attributes, run, argument.get());
  ::pthread_attr_destroy(&attributes);
  if (error == 0) (void)argument.release();
  return error;
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
  const int error = start_detached(std::move(work));
  if (error == 0) return absl::OkStatus();
  threads().end_one();
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot start a thread to look at a program: ", strerror(error),
                   "; raise the limit of memprofd's threads (TasksMax=)"));
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
