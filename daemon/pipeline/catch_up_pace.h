// SPDX-License-Identifier: Apache-2.0
// Decides when to fetch the unflushed records of a program that sends no batches. The caller
// supplies the times.
//
//     batch           fetched          fetched: nothing              again     batch
//     |----- 250 ms ----|---- 250 ms ----|---------- 1 s --------------|---------|- 250 ms ...
#pragma once

#include <chrono>

namespace memprofd {

class CatchUpPace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kQuiet{250};
  static constexpr std::chrono::milliseconds kIdle{1000};  // interval after a fetch without records

  // Data arrived without a fetch.
  void note_data(TimePoint now) {
    came_at_ = now;
    idle_ = stands_still_ = false;
  }
  void fetched(TimePoint now, bool anything) {
    fetched_at_ = now;
    idle_ = !anything;
    stands_still_ = false;
  }
  // Nothing was fetched, because the program has not run since. The next check comes as soon as
  // after a fetch.
  void note_idle(TimePoint now) {
    fetched(now, true);
    stands_still_ = true;
  }
  bool quiet(TimePoint now) const { return now - came_at_ >= kQuiet; }
  // True if nothing has arrived without a fetch for long, and the program has not run since the
  // last fetch.
  bool at_rest(TimePoint now) const { return stands_still_ && now - came_at_ >= kIdle; }
  // watched: a client waits for each event.
  bool due(TimePoint now, bool watched) const {
    return quiet(now) && now - fetched_at_ >= (idle_ && !watched ? kIdle : kQuiet);
  }

 private:
  TimePoint came_at_;
  TimePoint fetched_at_;
  bool idle_ = false;
  bool stands_still_ = false;
};

}  // namespace memprofd
