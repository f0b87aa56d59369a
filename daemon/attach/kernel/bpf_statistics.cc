// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/bpf_statistics.h"

#include <bpf/bpf.h>

namespace memprofd {

std::optional<BpfStatistics> BpfStatistics::enable() {
  UniqueFd fd(bpf_enable_stats(BPF_STATS_RUN_TIME));
  if (!fd) return std::nullopt;
  return BpfStatistics(std::move(fd));
}

}  // namespace memprofd
