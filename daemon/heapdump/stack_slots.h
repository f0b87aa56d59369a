// SPDX-License-Identifier: Apache-2.0
// Finds the pointers that each frame holds on the stacks of a paused program. Stacks of OCaml 4 are
// walked as its own collector does (runtime/roots_nat.c), by the live entries of the frame
// descriptors; for OCaml 5, see fiber_walk.h. Stacks may hold anything: the walk is bounded, and
// ends at invalid data.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/heapdump/fiber_walk.h"

namespace memprofd {

// State that OCaml 4 saved for a thread when it left OCaml code.
struct SavedStack {
  std::uint64_t stack = 0;  // bottom_of_stack; 0: it has no OCaml frames
  std::uint64_t return_address = 0;
  std::uint64_t registers = 0;  // gc_regs
};

class StackSlots {
 public:
  // Both must outlive this. A stack is walked up to the first frame that is not in the table.
  StackSlots(const MemoryReader& memory, const FrameTable& frames)
      : memory_(memory), table_(frames), fibers_(memory, frames) {}

  void add(SavedStack saved);
  void add(SavedFiber saved);
  // The return address of the frame whose slot this is; 0: none.
  std::uint64_t frame_of(std::uint64_t slot) const;

 private:
  bool add_frame(const FrameDescriptor& frame, const SavedStack& at);
  bool go_to_chunk_before(SavedStack& at) const;

  const MemoryReader& memory_;
  const FrameTable& table_;
  absl::flat_hash_map<std::uint64_t, std::uint64_t> frames_;  // by slot
  FiberWalk fibers_;
};

}  // namespace memprofd
