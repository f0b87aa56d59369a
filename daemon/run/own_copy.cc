// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/own_copy.h"

#include <atomic>

#include "daemon/attach/copy_lease.h"
#include "daemon/attach/inject/libc_functions.h"
#include "daemon/heapdump/heap_taker.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

absl::StatusOr<HeapSummary> take_own_copy(const OwnCopy& copy, const HeapRequest& request,
                                          const HeapClient& client) {
  ASSIGN_OR_RETURN(const auto maps, copy.target.memory->maps());
  ASSIGN_OR_RETURN(const LibcFunctions libc, find_libc_functions(copy.target.pid, maps));
  std::atomic<double> paused_seconds{0}, pause_ratio{1};
  const HeapSource source{.lease = std::make_shared<CopyLease>(
                              copy.target, nullptr, copy.agent_file, copy.control_address, libc,
                              paused_seconds, pause_ratio, copy.filters_allow),
                          .symbolizer = copy.symbolizer,
                          .sampling_rate = copy.sampling_rate,
                          .sites = copy.sites};
  return take_heap(source, request, client);
}

}  // namespace memprofd
