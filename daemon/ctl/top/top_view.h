// SPDX-License-Identifier: Apache-2.0
// `memprofctl top`: the activity of a running target, on a full screen or in frames of text.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/ctl/client.h"
#include "daemon/ctl/top/top_question.h"

namespace memprofd::ctl {

struct TopOptions {
  TopViewState view_state;  // pid 0: the user chooses on the screen
  double interval_seconds = 1;
  std::uint64_t iterations = 0;  // frames; 0: until q is pressed, or until the target has ended
                                 // (plain)
  bool plain = false;
  std::string window = "1m";  // a duration, or "all"
};

// Runs on a screen, and restores the terminal before it returns. Fails if it cannot begin, or if
// the daemon is gone at the end.
absl::Status run_screen_top(const Endpoint& endpoint, const TopOptions& options);

}  // namespace memprofd::ctl
