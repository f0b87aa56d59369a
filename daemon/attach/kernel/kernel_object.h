// SPDX-License-Identifier: Apache-2.0
// The BPF programs and maps of one target, loaded but not attached. Only the programs that the
// configuration needs are loaded, because the kernel verifies each again for every target.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "bpf/hit_budget.h"
#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/attach/kernel/kernel_config.h"
#include "daemon/attach/kernel/scratch_map.h"
#include "memprof.skel.h"
#include "tasks.skel.h"

namespace memprofd {

struct KernelObject {
  static absl::StatusOr<KernelObject> load(const KernelConfig& config, std::uint32_t table_bits);

  std::shared_ptr<const ScratchMap> scratch;  // of main
  BpfOwner<memprof_bpf, memprof_bpf__destroy> main;
  // Programs that read the kernel's own structures: they report forks, detect how the target ends,
  // and find thread pointers. Null on a kernel without type information (BTF); forks are not
  // followed there.
  BpfOwner<tasks_bpf, tasks_bpf__destroy> tasks;
};

// Makes libbpf test the kernel's features, with programs that do nothing. libbpf tests once per
// process and keeps the results, even those caused by a lack of memory: if it tested at the first
// attach, such a moment would prevent every later attach.
absl::Status learn_kernel_features();

}  // namespace memprofd
