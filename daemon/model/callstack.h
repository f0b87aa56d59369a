// SPDX-License-Identifier: Apache-2.0
// One callstack as captured: raw return addresses, runs of recursion compressed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/util/ids.h"

namespace memprofd {

// Value of alloc_idx in runtime capture: the innermost entry is the address of the allocation's
// debuginfo instead of a return address.
inline constexpr std::int32_t kDebuginfoIsInnermost = -2;

struct Callstack {
  CallstackId id;  // in the target's table; 0: unknown, or in no table
  StackHash hash;
  // Innermost first, with MEMPROF_RUN_MARK entries (bpf/events.h).
  std::vector<std::uint64_t> entries;
  // Index among the allocations that the compiler combined at the innermost frame; -1: unknown, or
  // kDebuginfoIsInnermost.
  std::int32_t alloc_idx = -1;
  std::uint32_t n_frames = 0;
  bool truncated = false;
  bool broken = false;

  // Calls fn(return address, repeat count) for each entry, innermost first. Accepts malformed
  // entries: skips a run mark that no address precedes.
  template <typename Fn>
  void for_each_run(Fn fn) const;
  // Like for_each_run, with the alloc_idx of each frame: fn(return address, alloc_idx, repeat
  // count). The innermost frame has this callstack's alloc_idx. All other frames are calls and have
  // -1, even at the same address.
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
