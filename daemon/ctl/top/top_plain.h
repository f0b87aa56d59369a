// SPDX-License-Identifier: Apache-2.0
// `top` for pipes: a frame after the other, as text or as JSON, one line a frame.
#pragma once

#include "absl/status/status.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/top/top_view.h"

namespace memprofd::ctl {

// Until so many frames are out, the target has ended (when there is no such number), or
// nobody reads any more, which is no error.
absl::Status run_plain_top(Questions& source, const TopOptions& options, bool json);

}  // namespace memprofd::ctl
