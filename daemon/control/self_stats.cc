// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/self_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "daemon/discover/memory_channel.h"
#include "daemon/util/byte_budget.h"

namespace memprofd {

SelfStats read_self_stats() {
  SelfStats stats;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
    stats.cpu_seconds +=
        static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  }
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
