// SPDX-License-Identifier: Apache-2.0
// Output of memprofctl run --live while a program runs.
#pragma once

#include <chrono>
#include <memory>

#include "daemon/ctl/questions.h"
#include "daemon/ctl/top/top_question.h"
#include "daemon/ctl/top/top_terminal.h"
#include "daemon/run/run_target.h"

namespace memprofd::ctl {

// Prints live memory once a second.
class LiveFrames {
 public:
  // The target must outlive it.
  explicit LiveFrames(RunTarget& run);

  // Prints to stderr when a second has passed.
  void update();

 private:
  static constexpr std::chrono::seconds kPace{1};

  RunTarget& run_;
  const std::unique_ptr<Questions> questions_;
  const Charset charset_ = terminal_charset();
  TopViewState view_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kPace;
};

}  // namespace memprofd::ctl
