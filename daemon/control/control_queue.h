// SPDX-License-Identifier: Apache-2.0
// What other threads ask the control thread to do. A request owns all that it touches: who
// asked may have stopped waiting by the time it runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"

namespace memprofd {

class ControlQueue {
 public:
  using Requests = std::deque<std::function<void()>>;

  // How long a caller waits for the control thread. Below what memprofctl waits.
  static constexpr std::chrono::seconds kPatience{10};

  // False once the queue is closed: the request is not run.
  bool post(std::function<void()> request);
  // Runs fn on the control thread and answers with its result, an absl::Status or StatusOr:
  // kDeadlineExceeded when it did not come to it in time, kAborted when the queue is closed.
  template <typename Fn>
  auto call(Fn fn, std::chrono::milliseconds patience = kPatience) -> decltype(fn());
  // Whether there are requests that have not been begun.
  bool waiting();

  // Ends the control thread's wait, or its next one.
  void wake();
  // Answers all callers, and those to come, with kAborted.
  void close();

  // Control thread only. Waits for requests, a wake-up or the time; what there is.
  Requests wait_until(std::chrono::steady_clock::time_point time);

  static absl::Status closed();
  static absl::Status late();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Requests requests_;    // under mutex_
  bool woken_ = false;   // under mutex_
  bool closed_ = false;  // under mutex_
};

template <typename Fn>
auto ControlQueue::call(Fn fn, std::chrono::milliseconds patience) -> decltype(fn()) {
  using Result = decltype(fn());
  struct Call {
    explicit Call(Fn fn) : fn(std::move(fn)) {}
    ~Call() {
      if (!answered) answer.set_value(closed());
    }
    void run() {
      answer.set_value(fn());
      answered = true;
    }
    Fn fn;
    std::promise<Result> answer;
    bool answered = false;
  };
  auto call = std::make_shared<Call>(std::move(fn));
  std::future<Result> result = call->answer.get_future();
  if (!post([call] { call->run(); })) return closed();
  call.reset();  // the queue's from now on
  if (result.wait_for(patience) == std::future_status::timeout) return late();
  return result.get();
}

}  // namespace memprofd
