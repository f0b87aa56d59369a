// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/self_stats.h"

#include <unistd.h>

#include <fstream>

#include "daemon/discover/memory_channel.h"
#include "daemon/util/byte_budget.h"
#include "daemon/util/clock.h"

namespace memprofd {

double own_cpu_seconds() {
  return static_cast<double>(clock_ns(CLOCK_PROCESS_CPUTIME_ID) + MemoryChannel::servers_cpu_ns()) *
         1e-9;
}

SelfStats read_self_stats() {
  SelfStats stats;
  stats.cpu_seconds = own_cpu_seconds();
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total_pages = 0, resident_pages = 0;
  if (statm >> total_pages >> resident_pages) {
    stats.resident_bytes = resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }
  stats.target_bytes = ByteBudget::of_process()->used();
  stats.target_bytes_max = ByteBudget::of_process()->limit();
  stats.abandoned_memory_servers = MemoryChannel::abandoned();
  return stats;
}

}  // namespace memprofd
