// SPDX-License-Identifier: Apache-2.0
// One callstack as captured: raw return addresses, runs of recursion compressed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/util/ids.h"

namespace memprofd {

// In place of an index among combined allocations: the innermost entry is not a return
// address but that of the allocation's debuginfo, as runtime capture has it.
inline constexpr std::int32_t kDebuginfoIsInnermost = -2;

struct Callstack {
  CallstackId id;  // in its target's table; 0: the unknown one, or in none
  StackHash hash;
  // Innermost first; MEMPROF_RUN_MARK entries as in bpf/events.h.
  std::vector<std::uint64_t> entries;
  // Index among the allocations that are combined at the innermost frame; -1: unknown, or
  // kDebuginfoIsInnermost.
  std::int32_t alloc_idx = -1;
  std::uint32_t n_frames = 0;
  bool truncated = false;
  bool broken = false;

  // Calls fn(return address, repeat count) for each entry, innermost first.
  // Total on garbage: a run without an address before it is skipped.
  template <typename Fn>
  void for_each_run(Fn fn) const;
  // The same with the alloc_idx that goes with each: fn(return address, alloc_idx,
  // repeat count). Ours belongs to the innermost frame; further frames, also of
  // the same address, are calls and have -1.
  template <typename Fn>
  void for_each_frame(Fn fn) const;
  // The first return address.
  std::optional<std::uint64_t> innermost() const;
  // All return addresses, at most max_frames of them.
  std::vector<std::uint64_t> expand(std::size_t max_frames) const;
};

// A callstack as it arrives; entries are borrowed for the call.
struct CallstackView {
  StackHash hash;
  std::span<const std::uint64_t> entries;
  std::int32_t alloc_idx = -1;
  std::uint32_t n_frames = 0;
  bool truncated = false;
  bool broken = false;
};

}  // namespace memprofd

#include "daemon/model/callstack_inl.h"
