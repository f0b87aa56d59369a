// SPDX-License-Identifier: Apache-2.0
// A look at a program that may take long, or hang in a file of that program: a thread of its
// own does it, and the control thread takes over what it has found.
//
//   start() ──▶ running ──work returns──▶ done ──take()──▶ over
//                  └── the Look is destroyed ──▶ given up: the thread ends when it can, and
//                                                destroys what it has found itself
//
// The work owns all that it touches: nobody waits for one that is given up.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memprofd {

// How long a look may take. Below what memprofctl waits for an attach (ctl/client.cc).
constexpr std::chrono::seconds kLookBudget{30};

// What is told of one that took longer.
absl::Status look_took_too_long(int pid);

// The threads of all looks, those that were given up among them.
class LookThreads {
 public:
  static constexpr std::size_t kMax = 32;

  // Runs the work in a thread that nobody joins. kResourceExhausted when there are too many.
  static absl::Status start(std::function<void()> work);
  static std::size_t count();
  // Until none is left, or the time has passed; whether none is left.
  static bool wait_for_all(std::chrono::milliseconds patience);
};

template <typename Result>
class Look {
 public:
  // when_done is called by the look's thread, also when the look was given up.
  static absl::StatusOr<Look> start(std::function<Result(std::stop_token)> work,
                                    std::function<void()> when_done);
  Look(Look&&) noexcept = default;
  // Gives up one that still runs: its stop token says so.
  Look& operator=(Look&& other) noexcept {
    std::swap(shared_, other.shared_);
    std::swap(began_, other.began_);
    return *this;
  }
  ~Look() {
    if (shared_) shared_->give_up();
  }

  // Its result is still to come.
  void request_stop() { shared_->stop.request_stop(); }
  bool done() const {
    std::lock_guard lock(shared_->mutex);
    return shared_->result.has_value();
  }
  // Once, after done().
  Result take() {
    std::lock_guard lock(shared_->mutex);
    return *std::exchange(shared_->result, std::nullopt);
  }
  std::chrono::nanoseconds age() const { return std::chrono::steady_clock::now() - began_; }
  bool over_budget() const { return age() > kLookBudget; }

 private:
  struct Shared {
    std::mutex mutex;
    std::optional<Result> result;  // under mutex
    bool given_up = false;         // under mutex
    std::stop_source stop;

    // What is dropped is destroyed outside the lock: that may take its time.
    void give_up() {
      std::optional<Result> dropped;
      stop.request_stop();
      std::lock_guard lock(mutex);
      given_up = true;
      dropped.swap(result);
    }
    void put(Result found) {
      std::lock_guard lock(mutex);
      if (!given_up) result.emplace(std::move(found));
    }
  };

  explicit Look(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

template <typename Result>
absl::StatusOr<Look<Result>> Look<Result>::start(std::function<Result(std::stop_token)> work,
                                                 std::function<void()> when_done) {
  auto shared = std::make_shared<Shared>();
  absl::Status started = LookThreads::start(
      [shared, work = std::move(work), when_done = std::move(when_done)]() mutable {
        shared->put(work(shared->stop.get_token()));
        work = nullptr;  // before anybody hears that it is done
        when_done();
      });
  if (!started.ok()) return started;
  return Look(std::move(shared));
}

}  // namespace memprofd
