// SPDX-License-Identifier: Apache-2.0
// Decides when a session is ticked next: often while something is about to happen, rarely while it
// samples, and less and less often while it waits for an idle program. Times come from the caller.
//
//     entered  stops: after  2 ms,  4,  6, ...  32,  34,  36 ...
//              waits: after 10 ms, 20, 30, ... 160, 170, 181, 192 ... 3,200, 3,400, 3,600 ms
#pragma once

#include <algorithm>
#include <chrono>

namespace memprofd {

class TickPace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kAtOnce{2};
  static constexpr std::chrono::milliseconds kSoon{10};
  static constexpr std::chrono::milliseconds kSteady{200};

  // Call this on each change of state; the first tick is due at once.
  void enter(TimePoint now) { entered_at_ = due_at_ = now; }
  // Keeps the interval short, because a caller waits for the end.
  void ticked_stopping(TimePoint now) { ticked(now, kAtOnce); }
  void ticked_steady(TimePoint now) { due_at_ = now + kSteady; }
  // No awaited event has happened since enter().
  void ticked_waiting(TimePoint now) { ticked(now, kSoon); }
  TimePoint due_at() const { return due_at_; }

 private:
  // The interval grows with the time since enter(), up to kSteady.
  void ticked(TimePoint now, TimePoint::duration at_first) {
    due_at_ = now + std::clamp<TimePoint::duration>((now - entered_at_) / 16, at_first, kSteady);
  }

  TimePoint entered_at_;
  TimePoint due_at_;
};

}  // namespace memprofd
