// SPDX-License-Identifier: Apache-2.0
// An inspection of a program may take long, or hang in a file of that program. So a thread of its
// own does it, and the control thread takes over the result.
//
//   start() ──▶ running ──work returns──▶ done ──take()──▶ over
//                  └── the Inspection is destroyed ──▶ given up: the thread ends when it
//                                                      can, and destroys its result itself
//
// The work owns everything that it uses, because nothing waits for an abandoned inspection.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/util/guard.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// Maximum duration of an inspection; shorter than memprofctl waits for an attach (ctl/client.cc).
constexpr std::chrono::seconds kInspectionBudget{30};
// Maximum CPU time of an inspection.
constexpr std::chrono::seconds kInspectionCpuBudget{10};

// The error of an inspection that took longer.
absl::Status inspection_took_too_long(int pid);

// The threads of all inspections, abandoned ones included.
class InspectionThreads {
 public:
  static constexpr std::size_t kMax = 32;
  // Limit per user other than root.
  static constexpr std::size_t kMaxOfUser = 8;

  // Runs the work in a detached thread, for the user of this one (util/scoped_user.h).
  // kResourceExhausted if there are too many.
  static absl::Status start(std::function<void()> work);
  static std::size_t count();
  // Waits until none is left or the time is over. Returns true if none is left.
  static bool wait_for_all(std::chrono::milliseconds patience);
};

// CPU time of a running thread of this process.
std::chrono::nanoseconds cpu_time_of_thread(pid_t thread);

template <typename Result>
class Inspection {
 public:
  // when_done is called by the inspection's thread, even if the inspection was abandoned.
  static absl::StatusOr<Inspection> start(std::function<Result(std::stop_token)> work,
                                          std::function<void()> when_done);
  Inspection(Inspection&&) noexcept = default;
  // Abandons a running inspection and requests its stop.
  Inspection& operator=(Inspection&& other) noexcept {
    std::swap(shared_, other.shared_);
    std::swap(began_, other.began_);
    return *this;
  }
  ~Inspection() {
    if (shared_) shared_->give_up();
  }

  // Asks the work to end early; its result still comes.
  void request_stop() { shared_->stop.request_stop(); }
  bool done() const {
    const MutexLock lock(shared_->mutex);
    return shared_->result.has_value();
  }
  // Call this once, after done().
  Result take() {
    const MutexLock lock(shared_->mutex);
    return *std::exchange(shared_->result, std::nullopt);
  }
  std::chrono::nanoseconds age() const { return std::chrono::steady_clock::now() - began_; }
  bool over_budget() const {
    const MutexLock lock(shared_->mutex);
    return is_over_budget();
  }
  // Waits until it is done or over its budget. Returns true if it is done.
  bool wait() const {
    const MutexLock lock(shared_->mutex);
    while (!shared_->over) {
      if (is_over_budget()) return false;
      shared_->ended.wait_until(shared_->mutex, std::chrono::steady_clock::now() + kBudgetCheck);
    }
    return shared_->result.has_value();
  }

 private:
  struct Shared {
    Mutex mutex;
    std::optional<Result> result ABSL_GUARDED_BY(mutex);
    bool given_up ABSL_GUARDED_BY(mutex) = false;
    pid_t thread ABSL_GUARDED_BY(mutex) = 0;   // 0: not started
    bool over ABSL_GUARDED_BY(mutex) = false;  // the thread still runs for a moment
    Condition ended;
    std::stop_source stop;

    void begin() {
      const MutexLock lock(mutex);
      thread = ::gettid();
    }
    void end() {
      const MutexLock lock(mutex);
      over = true;
      ended.notify_all();
    }

    // Dropped results are destroyed outside the lock, because that may take a while.
    void give_up() {
      std::optional<Result> dropped;
      stop.request_stop();
      const MutexLock lock(mutex);
      given_up = true;
      dropped.swap(result);
    }
    void put(Result found) {
      const MutexLock lock(mutex);
      if (!given_up) result.emplace(std::move(found));
    }
  };

  static constexpr std::chrono::milliseconds kBudgetCheck{100};

  // Needs the mutex, so that the thread still exists while its time is read. One that has ended
  // without a result counts as over its budget, too.
  bool is_over_budget() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
    if (age() > kInspectionBudget || (shared_->over && !shared_->result)) return true;
    return shared_->thread != 0 && !shared_->over &&
           cpu_time_of_thread(shared_->thread) > kInspectionCpuBudget;
  }

  explicit Inspection(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

template <typename Result>
absl::StatusOr<Inspection<Result>> Inspection<Result>::start(
    std::function<Result(std::stop_token)> work, std::function<void()> when_done) {
  auto shared = std::make_shared<Shared>();
  absl::Status started = InspectionThreads::start(
      [shared, work = std::move(work), when_done = std::move(when_done)]() mutable {
        shared->begin();
        guarded("to inspect a program", [&] { shared->put(work(shared->stop.get_token())); });
        work = nullptr;  // before done() becomes true
        shared->end();
        when_done();
      });
  if (!started.ok()) return started;
  return Inspection(std::move(shared));
}

// Runs the work and waits for it within the time limit of an inspection. kResourceExhausted,
// kDeadlineExceeded: as for Inspection. pid: for messages.
template <typename Result>
absl::StatusOr<Result> inspect_in_time(int pid, std::function<Result(std::stop_token)> work) {
  auto inspection = Inspection<Result>::start(std::move(work), [] {});
  if (!inspection.ok()) return inspection.status();
  if (inspection->wait()) return inspection->take();
  return inspection_took_too_long(pid);
}

// Shares inspections among callers: a caller that asks for the same meanwhile waits for the same
// inspection. Thread-safe.
template <typename Key, typename Result>
class JoinedInspections {
 public:
  // pid: for messages. kResourceExhausted, kDeadlineExceeded: as for Inspection.
  absl::StatusOr<Result> ask(const Key& key, int pid, std::function<Result(std::stop_token)> work) {
    std::promise<absl::StatusOr<Result>> answered;
    {
      MutexLock lock(mutex_);
      const auto [found, is_new] = under_way_.try_emplace(key, answered.get_future().share());
      const auto answer = found->second;
      lock.unlock();
      if (!is_new) return answer.get();
    }
    absl::StatusOr<Result> result =
        absl::InternalError("memprofd failed to inspect the program; see its log");
    guarded("to inspect a program",
            [&] { result = inspect_in_time<Result>(pid, std::move(work)); });
    {
      const MutexLock lock(mutex_);
      under_way_.erase(key);
    }
    answered.set_value(result);
    return result;
  }

 private:
  Mutex mutex_;
  std::map<Key, std::shared_future<absl::StatusOr<Result>>> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
