// SPDX-License-Identifier: Apache-2.0
// Configuration of the BPF programs of one target, set before they are loaded.
#pragma once

#include <cstdint>
#include <optional>

#include "bpf/events.h"
#include "daemon/attach/kernel/uprobe_link.h"
#include "daemon/discover/target.h"
#include "daemon/model/control.h"

namespace memprofd {

// Profiles the native heap by probes at malloc and free.
struct MallocProbesConfig {
  std::uint64_t interval = 0;            // bytes for one sample
  std::uint64_t max_hits = 0;            // a second (MEMPROF_C_HIT_CHEAP)
  std::int64_t domain_state_offset = 0;  // OCaml 5: from a thread pointer
};

// Fixed at load.
struct KernelConfig {
  int pid = 0;  // pid in memprofd's namespace
  UprobeKind uprobes = best_uprobe_kind();
  // Programs to load: those of observe mode, or those of the agent, the latter without the capture
  // if the runtime captures everything.
  bool observe = false;
  bool capture = true;
  bool native_heap = false;                         // also profile the native heap
  std::optional<MallocProbesConfig> malloc_probes;  // likewise, in observe mode
  bool follow_forks = false;                        // report children too
  bool fiber_stacks = false;                        // OCaml 5: the next three are not used
  std::uint64_t domain_state = 0;                   // value of the Caml_state pointer
  // Bytes into the domain state; the second must be the first plus 8, because
  // the walk reads both at once.
  std::uint32_t bottom_of_stack_offset = 0;
  std::uint32_t last_return_address_offset = 0;
  // Used only for the native heap.
  std::uint32_t c_stack_offset = 0;  // OCaml 5; 0: callstacks are not known
  AddressRange c_calls;              // the code that calls C: the runtime's, in OCaml 4 OCaml's
  // Used only in observe mode.
  std::uint32_t current_stack_offset = 0;  // OCaml 5
  std::uint32_t stat_words_offset = 0;     // minor, promoted, major
  std::uint32_t young_ptr_offset = 0;
  std::uint32_t young_end_offset = 0;
  std::uint32_t young_limit_offset = 0;
  std::uint32_t domain_id_offset = 0;   // OCaml 5
  AddressRange user_callstack;          // empty: Printexc.get_callstack is not distinguished
  AddressRange track_interned;          // empty: unmarshalling is not distinguished
  std::uint32_t max_frames = 1024;      // clamped to 1..MEMPROF_MAX_FRAMES
  std::uint32_t ring_bytes = 8u << 20;  // rounded up to a power of two, 256 KiB..1 GiB
};

// Size of a target's ring buffer, most of its memory here. It holds half a second of the events of
// the busiest programs at the highest rate of that size, except above 1e-4; under a small budget
// they send less. The native heap sends one event per block. max_overhead: share of the target's
// CPU; 0: no budget.
constexpr std::uint32_t ring_bytes_for(double sampling_rate, double max_overhead,
                                       bool native_heap) {
  if (sampling_rate > 1e-4) return 4u << 20;
  if (native_heap) return 1u << 20;
  if (sampling_rate <= 1e-5) return 256u << 10;
  return max_overhead > 0 && max_overhead < 2 * kUsualMaxOverhead ? 512u << 10 : 1u << 20;
}

// A site in the file that was parsed, even if the process runs another one by now.
inline ProbeSite site_in_program(const Target& target, const ProbePoint& point) {
  return {.file = target.program_file, .offset = point.file_offset};
}

}  // namespace memprofd
