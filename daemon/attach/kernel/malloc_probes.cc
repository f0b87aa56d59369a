// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/malloc_probes.h"

#include "daemon/attach/kernel/kernel_object.h"
#include "daemon/attach/kernel/uprobe_session.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

// Probes the frees first: the end of every sampled block is then seen.
absl::Status MallocProbes::attach(const ProbeSites& calls, const ProbeSites& frees) {
  const auto& programs = object_.main->progs;
  ASSIGN_OR_RETURN(frees_,
                   UprobeLink::attach_all(programs.c_free_probe, pid_, frees, "the probe at free"));
  ASSIGN_OR_RETURN(calls_,
                   attach_session(programs.c_call_probe, pid_, calls, "the probes at malloc"));
  return absl::OkStatus();
}

void MallocProbes::arm() {
  __atomic_store_n(&object_.main->bss->budget.armed, 1u, __ATOMIC_RELEASE);
}

std::uint64_t MallocProbes::hits() const {
  return __atomic_load_n(&object_.main->bss->budget.hits, __ATOMIC_ACQUIRE);
}

bool MallocProbes::over_budget() const {
  return __atomic_load_n(&object_.main->bss->budget.off, __ATOMIC_ACQUIRE) ==
         MEMPROF_CALLS_OVER_BUDGET;
}

std::uint64_t MallocProbes::blocks_left_out() const {
  return __atomic_load_n(&object_.main->bss->c_blocks_left_out, __ATOMIC_RELAXED);
}

// The order matters: otherwise the returns of calls in progress would be missed.
void MallocProbes::begin_removal() {
  removal_.add(calls_);
  removal_.add(frees_);
}

void MallocProbes::remove() {
  begin_removal();
  removal_.wait();
}

}  // namespace memprofd
