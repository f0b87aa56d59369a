// SPDX-License-Identifier: Apache-2.0
// A row for each uprobe (probes.h): its name in messages, its BPF programs, and the condition for
// loading it.
#pragma once

#include <array>
#include <string_view>

#include "daemon/attach/kernel/kernel_config.h"
#include "daemon/attach/kernel/probes.h"
#include "memprof.skel.h"

namespace memprofd {

using BpfPrograms = decltype(memprof_bpf::progs);

struct ProbeRow {
  Probe probe;
  std::string_view what;
  bpf_program* BpfPrograms::*ocaml4;
  bpf_program* BpfPrograms::*ocaml5;
  bool (*wanted)(const KernelConfig&);

  bpf_program* program(const BpfPrograms& programs, bool domains) const {
    return programs.*(domains ? ocaml5 : ocaml4);
  }
};

inline constexpr std::array<ProbeRow, kProbes> kProbeTable = {{
    {Probe::kCapture, "the capture probe", &BpfPrograms::capture, &BpfPrograms::capture_fibers,
     [](const KernelConfig& config) { return config.capture && !config.observe; }},
    {Probe::kObserve, "the allocation probe", &BpfPrograms::observe, &BpfPrograms::observe_domains,
     [](const KernelConfig& config) { return config.observe; }},
    {Probe::kBatch, "the batch probe", &BpfPrograms::batch, &BpfPrograms::batch,
     [](const KernelConfig& config) { return !config.observe; }},
    {Probe::kFrametable, "the frame table probe", &BpfPrograms::frametable_registered,
     &BpfPrograms::frametable_registered, [](const KernelConfig&) { return true; }},
    {Probe::kNativeAlloc, "the probe of allocated native blocks", &BpfPrograms::c_allocated,
     &BpfPrograms::c_allocated,
     [](const KernelConfig& config) { return config.native_heap && !config.observe; }},
    {Probe::kNativeFree, "the probe of freed native blocks", &BpfPrograms::c_freed,
     &BpfPrograms::c_freed,
     [](const KernelConfig& config) { return config.native_heap && !config.observe; }},
}};

constexpr bool rows_match_their_probes() {
  for (std::size_t i = 0; i < kProbeTable.size(); ++i)
    if (static_cast<std::size_t>(kProbeTable[i].probe) != i) return false;
  return true;
}
static_assert(rows_match_their_probes());

}  // namespace memprofd
