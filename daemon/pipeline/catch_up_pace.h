// SPDX-License-Identifier: Apache-2.0
// When the unflushed records of a program are fetched that says nothing by itself. Times come from
// the caller.
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
  static constexpr std::chrono::milliseconds kIdle{1000};  // once a fetch has brought nothing

  // Something came by itself.
  void came(TimePoint now) {
    came_at_ = now;
    idle_ = false;
  }
  void fetched(TimePoint now, bool anything) {
    fetched_at_ = now;
    idle_ = !anything;
  }
  bool quiet(TimePoint now) const { return now - came_at_ >= kQuiet; }
  // watched: somebody waits for each event.
  bool due(TimePoint now, bool watched) const {
    return quiet(now) && now - fetched_at_ >= (idle_ && !watched ? kIdle : kQuiet);
  }

 private:
  TimePoint came_at_;
  TimePoint fetched_at_;
  bool idle_ = false;
};

}  // namespace memprofd
