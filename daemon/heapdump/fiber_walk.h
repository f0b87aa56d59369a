// SPDX-License-Identifier: Apache-2.0
// The stacks of OCaml 5 in a program that stands still: each fiber has one, and knows the fiber
// that it returns to. Walked as the runtime's collector does (runtime/fiber.c), by the live entries
// of the frame descriptors. The stacks may hold anything: the walk is bounded, and ends where it
// makes no sense.
//
//     struct stack_info      where it was left | .. | its end
//     stack                  return address | frame | return address | frame | .. | end
//     at its end             three functions, of the handler | the fiber that it returns to
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

struct SavedFiber {
  std::uint64_t fiber = 0;      // struct stack_info; 0: none
  std::uint64_t registers = 0;  // gc_regs of a running fiber
};

class FiberWalk {
 public:
  struct Slot {
    std::uint64_t address = 0;
    std::uint64_t value = 0;
  };
  // Called with each frame, innermost first, and the slots that hold values. return_address: inside
  // the frame's function; 0: the handler of the fiber, or words that may be values, because the
  // frame's code is not in the table. Return false to stop.
  using OnFrame = std::function<bool(std::uint64_t return_address, std::span<const Slot> slots)>;

  // Maximum number of words in all walks: stacks of 2 GiB. Fibers may form a cycle, and frames may
  // claim thousands of values.
  static constexpr std::uint64_t kMaxWords = std::uint64_t{1} << 28;

  // Both must outlive this.
  FiberWalk(const MemoryReader& memory, const FrameTable& frames,
            std::uint64_t most_words = kMaxWords)
      : memory_(memory), table_(frames), words_left_(most_words) {}

  void walk(SavedFiber saved, const OnFrame& on_frame);
  // True if some data was omitted: too many fibers in all walks, or too many words on their stacks.
  bool cut() const { return fibers_ > kMaxFibers || words_left_ == 0; }
  static constexpr int kMaxFibers = 1 << 22;

 private:
  static constexpr int kMaxFrames = 1 << 18;  // of one fiber
  static constexpr std::uint64_t kMaxStackBytes = std::uint64_t{1} << 33;

  // Facts about a return address.
  struct Frame {
    bool ends_chunk = false;  // C code is below
    std::uint64_t bytes = 0;
    std::vector<std::uint16_t> live;
  };
  const Frame* frame_of(std::uint64_t return_address);
  // Returns true if this many words fit into the limit.
  bool spend(std::uint64_t words) {
    words_left_ -= std::min(words_left_, words);
    return words_left_ > 0;
  }
  bool walk_stack(std::uint64_t registers, const OnFrame& on_frame);
  bool walk_chunk(std::uint64_t& at, std::uint64_t& registers, const OnFrame& on_frame);
  bool report_frame(const Frame& frame, std::uint64_t return_address, std::uint64_t at,
                    std::uint64_t registers, const OnFrame& on_frame);
  void report_rest(std::uint64_t at, const OnFrame& on_frame);
  bool report_handler(std::uint64_t& parent, const OnFrame& on_frame);
  std::optional<std::uint64_t> word(std::uint64_t address);

  const MemoryReader& memory_;
  const FrameTable& table_;
  absl::flat_hash_map<std::uint64_t, Frame> frames_;  // by return address
  std::vector<Slot> slots_;
  std::uint64_t begin_ = 0, end_ = 0;  // of the stack that is walked
  int frames_left_ = 0;
  std::uint64_t words_left_;
  int fibers_ = 0;
  std::uint64_t window_at_ = 0;
  std::vector<std::uint64_t> window_;
};

}  // namespace memprofd
