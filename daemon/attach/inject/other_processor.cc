// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/other_processor.h"

#include <sched.h>

#include <algorithm>

namespace memprofd {
namespace {

// Maximum number of threads that are examined.
constexpr std::size_t kMaxThreads = 64;

}  // namespace

void keep_off_processors_of(const ProcFs& proc, int pid) {
  cpu_set_t allowed;
  const auto threads = proc.tasks(pid);
  if (!threads.ok() || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (std::size_t i = 0; i < std::min(threads->size(), kMaxThreads); ++i) {
    const int tid = (*threads)[i];
    const auto status = proc.thread_status(pid, tid);
    if (!status.ok() || status->state != 'R') continue;
    const auto processor = proc.last_processor(pid, tid);
    if (processor.ok() && *processor < CPU_SETSIZE) CPU_CLR(*processor, &allowed);
  }
  if (CPU_COUNT(&allowed) > 0) (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace memprofd
