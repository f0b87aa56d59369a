// SPDX-License-Identifier: Apache-2.0
// The BPF programs and maps of one target, loaded and not attached. Only the programs that the
// config asks for are loaded: the kernel verifies each anew for every target.
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

// Has libbpf ask the kernel for its features, with programs that do nothing. It asks once in the
// life of the process and keeps the answers, those for want of memory too: asked when the first
// program is attached to, such a moment would be one after which none can be.
absl::Status learn_kernel_features();

}  // namespace memprofd
