// SPDX-License-Identifier: Apache-2.0
// Probes at malloc, similar functions and free, in one process (bpf/malloc_probes.bpf.h).
//
// The kernel removes them when the descriptors are closed, however this object ends.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/attach/kernel/probe_removal.h"
#include "daemon/attach/kernel/uprobe_link.h"
#include "daemon/util/fd.h"

namespace memprofd {

struct KernelObject;

// Owned by the control thread.
class MallocProbes {
 public:
  // object: loaded with KernelConfig::malloc_probes; must outlive it.
  MallocProbes(KernelObject& object, int pid) : object_(object), pid_(pid) {}
  ~MallocProbes() { remove(); }
  MallocProbes(const MallocProbes&) = delete;
  MallocProbes& operator=(const MallocProbes&) = delete;

  // From now on hits are counted, but blocks are not sampled.
  absl::Status attach(const ProbeSites& calls, const ProbeSites& frees);
  // From now on blocks are sampled and followed.
  void arm();
  // Cost of all hits since the probes were attached, in units of MEMPROF_C_HIT_CHEAP.
  std::uint64_t hits() const;
  // True if one second had more hits than allowed: nothing is followed any more, but hits keep
  // their cost until the probes are removed.
  bool over_budget() const;
  // Samples that were dropped because too many sampled blocks are alive. Any thread.
  std::uint64_t blocks_left_out() const;

  // Begins to remove the probes, for which the kernel needs some tens of milliseconds.
  void begin_removal();
  bool removed() { return removal_.done(); }
  void remove();

 private:
  KernelObject& object_;
  const int pid_;
  UniqueFd calls_;
  UprobeLink frees_;
  ProbeRemoval removal_;
};

}  // namespace memprofd
