// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/inspection.h"

#include <pthread.h>
#include <time.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/threads/mutex.h"
#include "daemon/util/threads/start_thread.h"
#include "daemon/util/user_slots.h"

namespace memprofd {
namespace {

struct Threads {
  Mutex mutex;
  Condition ended;
  std::size_t count ABSL_GUARDED_BY(mutex) = 0;
  UserSlots slots{InspectionThreads::kMax, "inspections of programs are running or hang",
                  InspectionThreads::kMaxOfUser};

  void end_one() {
    const MutexLock lock(mutex);
    --count;
    ended.notify_all();
  }
};

// Never destroyed, because an abandoned thread may outlive main().
Threads& threads() {
  static auto* const threads = new Threads;
  return *threads;
}

// The work is destroyed before the thread counts as ended.
void run(std::function<void()> work, UserSlots::Slot slot) {
  ::pthread_setname_np(::pthread_self(), "inspection");
  std::exchange(work, nullptr)();
  { const UserSlots::Slot given_back = std::move(slot); }
  threads().end_one();
}

}  // namespace

absl::Status inspection_took_too_long(int pid) {
  return absl::DeadlineExceededError(absl::StrCat(
      "pid ", pid, ": the inspection of the program took longer than ", kInspectionBudget.count(),
      " s, or more than ", kInspectionCpuBudget.count(),
      " s of CPU; try again when its file system answers (FUSE, NFS), or with fewer plugins"));
}

absl::Status InspectionThreads::start(std::function<void()> work) {
  auto slot = threads().slots.take(ScopedUser::current());
  if (!slot.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(slot.status().message(),
                     "; if this persists, find the file system that does not answer (FUSE, NFS)"));
  }
  {
    Threads& all = threads();
    const MutexLock lock(all.mutex);
    ++all.count;
  }
  auto thread = start_thread("to inspect a program",
                             [work = std::move(work), slot = *std::move(slot)]() mutable {
                               run(std::move(work), std::move(slot));
                             });
  if (thread.ok()) {
    thread->detach();
  } else {
    threads().end_one();
  }
  return thread.status();
}

// Computes the id of the thread's CPU clock as the C library does (<linux/posix-timers.h>).
std::chrono::nanoseconds cpu_time_of_thread(pid_t thread) {
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | 6);
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::size_t InspectionThreads::count() {
  Threads& all = threads();
  const MutexLock lock(all.mutex);
  return all.count;
}

bool InspectionThreads::wait_for_all(std::chrono::milliseconds patience) {
  Threads& all = threads();
  const auto until = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(all.mutex);
  while (all.count > 0 && all.ended.wait_until(all.mutex, until)) {
  }
  return all.count == 0;
}

}  // namespace memprofd
