// SPDX-License-Identifier: Apache-2.0
// The process metrics that Prometheus clients usually export.
#pragma once

#include <cstdint>

namespace memprofd {

struct ProcessStats {
  double start_unix_seconds = 0;
  std::uint64_t open_descriptors = 0;
  std::uint64_t max_descriptors = 0;
};

// Statistics of this process; a value is 0 if /proc does not provide it.
ProcessStats process_stats();

}  // namespace memprofd
