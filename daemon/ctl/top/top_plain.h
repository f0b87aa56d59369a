// SPDX-License-Identifier: Apache-2.0
// `top` for pipes: one frame after another, as text, or as JSON with one line per frame.
#pragma once

#include "absl/status/status.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/top/top_view.h"

namespace memprofd::ctl {

// Prints this many frames; without a number, until the target has ended. Ends early, without an
// error, if the reader has closed the pipe.
absl::Status run_plain_top(Questions& source, const TopOptions& options, bool json);

}  // namespace memprofd::ctl
