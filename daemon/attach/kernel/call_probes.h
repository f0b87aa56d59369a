// SPDX-License-Identifier: Apache-2.0
// Probes at many functions of one program, which count its calls in the kernel (bpf/calls.bpf.c).
//
// The kernel removes the probes when the descriptors are closed, however this object ends. A kernel
// without multi links has one perf event per place, of which only a few are bearable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "bpf/calls.h"
#include "daemon/attach/kernel/uprobe_link.h"

namespace memprofd {

// Offsets, in bytes into the domain state, of the counters of allocated words of OCaml code.
struct AllocatedWords {
  std::uint32_t stats = 0;  // minor, promoted, major words
  std::uint32_t young_end = 0;
  std::uint32_t not_in_stats = 0;       // OCaml 5
  std::uint64_t not_in_stats_here = 0;  // OCaml 4: an address
};

struct CallProbesConfig {
  int pid = 0;                 // pid in memprofd's namespace
  ProbeSites sites;            // cookies: MEMPROF_CALL_COOKIE
  std::uint64_t max_hits = 0;  // a second, of all probes together
  bool with_time = false;      // there are places of other kinds than MEMPROF_CALL_ENTRY
  // For times in OCaml 5: byte offset of the running fiber's stack in the domain's state.
  bool fiber_stacks = false;
  std::uint32_t current_stack_offset = 0;
  // Offset in bytes in that stack.
  std::uint32_t fiber_end_offset = 0;
  std::uint32_t fiber_id_offset = 0;
  std::optional<AllocatedWords> words;  // measured beside time; nullopt: unknown
};

// Maximum number of places without multi links: the kernel takes a tenth of a second to remove
// each.
inline constexpr std::size_t kMaxSingleCallProbes = 64;

// Not thread-safe.
class CallProbes {
 public:
  // Places the probes, which count from arm() on. kResourceExhausted: more sites than
  // kMaxSingleCallProbes on a kernel without multi links; otherwise errors of bpf_load_error() and
  // bpf_attach_error().
  static absl::StatusOr<std::unique_ptr<CallProbes>> attach(const CallProbesConfig& config);
  // Removes the probes, which takes some tens of milliseconds.
  ~CallProbes();
  CallProbes(const CallProbes&) = delete;
  CallProbes& operator=(const CallProbes&) = delete;

  void arm();
  // Removes the probes; the counts stay.
  void remove();

  // Counters of the function with this index, so far.
  memprof_call_counts counts(std::uint32_t function) const;
  std::uint64_t hits() const;
  memprof_calls_off off() const;
  std::uint64_t off_ns() const;  // CLOCK_MONOTONIC, unless it is on

 private:
  struct Parts;
  explicit CallProbes(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace memprofd
