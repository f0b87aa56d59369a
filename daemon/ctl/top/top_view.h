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
  TopViewState view_state;  // pid 0: a screen lets choose
  double interval_seconds = 1;
  std::uint64_t iterations = 0;  // frames; 0: until q is pressed, or the target has ended (plain)
  bool plain = false;
  std::string window = "1m";  // a duration, or all
};

// On a screen; the terminal is as it was when this returns. What keeps it from beginning
// is an error, and that the daemon is gone when it ends.
absl::Status run_screen_top(const Endpoint& endpoint, const TopOptions& options);

}  // namespace memprofd::ctl
