// SPDX-License-Identifier: Apache-2.0
// When a session is to be ticked next: often while something is about to happen, seldom when it
// samples, and the more seldom the longer a program that does nothing is waited for. Times come
// from the caller.
//
//     entered  waits: after 10 ms, 20, 30, ... 160, 170, 181, 192 ... 3,200, 3,400, 3,600 ms
#pragma once

#include <algorithm>
#include <chrono>

namespace memprofd {

class TickPace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kSoon{10};
  static constexpr std::chrono::milliseconds kSteady{200};

  // Another state than before: its first tick is due.
  void enter(TimePoint now) { entered_at_ = due_at_ = now; }
  void ticked_soon(TimePoint now) { due_at_ = now + kSoon; }
  void ticked_steady(TimePoint now) { due_at_ = now + kSteady; }
  // Nothing that was waited for since enter().
  void ticked_waiting(TimePoint now) {
    due_at_ = now + std::clamp<TimePoint::duration>((now - entered_at_) / 16, kSoon, kSteady);
  }
  TimePoint due_at() const { return due_at_; }

 private:
  TimePoint entered_at_;
  TimePoint due_at_;
};

}  // namespace memprofd
