// SPDX-License-Identifier: Apache-2.0
// The metrics of the process itself that Prometheus clients usually export.
#pragma once

#include <cstdint>

namespace memprofd {

struct ProcessStats {
  double start_unix_seconds = 0;
  std::uint64_t open_descriptors = 0;
  std::uint64_t max_descriptors = 0;
};

// Statistics of this process; 0 if /proc has no value.
ProcessStats process_stats();

}  // namespace memprofd
