// SPDX-License-Identifier: Apache-2.0
// memprofctl values watch, which values --watch runs too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/ctl/commands.h"

namespace memprofd::ctl {

struct WatchOptions {
  std::vector<std::string> names;  // or patterns
  bool with_contents = false;
  double period = 1;        // seconds
  std::uint64_t times = 0;  // 0: until the user ends it
  bool keep = false, forget = false;
  bool no_daemon = false;  // this process reads them
};
absl::Status run_watch(const Options& options, const WatchOptions& watch);

}  // namespace memprofd::ctl
