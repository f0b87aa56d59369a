// SPDX-License-Identifier: Apache-2.0
// Requests of other threads to the control thread. A request owns everything that it uses, because
// its caller may have stopped waiting by the time it runs.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

template <typename Result>
class Answer;

class ControlQueue {
 public:
  using Requests = std::deque<std::function<void()>>;

  // Time for which a caller waits for the control thread; shorter than memprofctl's own.
  static constexpr std::chrono::seconds kPatience{10};

  // Returns false and drops the request if the queue is closed.
  bool post(std::function<void()> request);
  // Runs the request on the control thread and waits for its answer: kDeadlineExceeded if none came
  // in time, kAborted if the queue is closed.
  template <typename Result>
  Result ask(std::function<void(Answer<Result>)> request,
             std::chrono::milliseconds patience = kPatience);
  // True if there are requests that have not begun.
  bool waiting();

  // Ends the control thread's wait, or its next one.
  void wake();
  // Fails all current and future requests with kAborted.
  void close();

  // Control thread only. Waits until there are requests, a wake-up or the time has come. Returns
  // the requests.
  Requests wait_until(std::chrono::steady_clock::time_point time);

  static absl::Status closed();
  static absl::Status late(std::chrono::milliseconds patience);

 private:
  Mutex mutex_;
  Condition changed_;
  Requests requests_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Answers a request exactly once: with kAborted on destruction if there was no answer before.
template <typename Result>
class Answer {
 public:
  explicit Answer(std::promise<Result> promise) : promise_(std::move(promise)) {}
  Answer(Answer&& other) noexcept : promise_(std::exchange(other.promise_, std::nullopt)) {}
  Answer& operator=(Answer&& other) noexcept {
    promise_.swap(other.promise_);
    return *this;
  }
  ~Answer() { give(ControlQueue::closed()); }

  // Does nothing if there was an answer before.
  void give(Result result) {
    if (auto promise = std::exchange(promise_, std::nullopt)) {
      promise->set_value(std::move(result));
    }
  }

 private:
  std::optional<std::promise<Result>> promise_;
};

template <typename Result>
Result ControlQueue::ask(std::function<void(Answer<Result>)> request,
                         std::chrono::milliseconds patience) {
  std::promise<Result> promise;
  std::future<Result> result = promise.get_future();
  auto answer = std::make_shared<Answer<Result>>(std::move(promise));
  post([request = std::move(request), answer = std::move(answer)] { request(std::move(*answer)); });
  if (result.wait_for(patience) == std::future_status::timeout) return late(patience);
  return result.get();
}

}  // namespace memprofd
