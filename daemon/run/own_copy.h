// SPDX-License-Identifier: Apache-2.0
// Heap snapshots of a process of the same user, which is copied by ptrace alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/target.h"
#include "daemon/model/control.h"
#include "daemon/pipeline/sample_sites.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/util/ids.h"
#include "daemon/util/shared_fd.h"

namespace memprofd {

struct OwnCopy {
  const Target& target;
  SharedFd agent_file;
  std::uint64_t control_address = 0;  // memprof_agent_control in the process
  bool filters_allow = false;         // as for Injection
  // As of HeapSource.
  std::shared_ptr<Symbolizer> symbolizer;
  double sampling_rate = 0;
  std::function<SampleSites(std::vector<SampleId> numbers)> sites;
};

// Errors as for take_heap().
absl::StatusOr<HeapSummary> take_own_copy(const OwnCopy& copy, const HeapRequest& request,
                                          const HeapClient& client);

}  // namespace memprofd
