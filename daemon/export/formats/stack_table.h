// SPDX-License-Identifier: Apache-2.0
// Callstacks of profiles as numbers, for formats that list everything once.
//
// Worked example: one target with the rows [a, RUN|2, b] and [c, b], where at b
// the function g is inlined into f, and "hide c" holds. Then
//   locations  0: a   1: g   2: f
//   frames     0: {0}   1: {1, 2}                 locations, innermost first
//   stacks     0: {0 x3, 1 x1}   1: {1 x1}        frames, innermost first
// and from the root the first stack is f g a a a.
//
// Recursion makes stacks long, so limits shorten recursion first: runs of one frame are reduced,
// all to the same number of repeats, until the stack fits. Only if that is not enough are outer
// frames omitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/history/profile.h"

namespace memprofd {

// Locations of the expanded stacks.
struct StackLimits {
  std::size_t of_a_stack = 8192;
  std::size_t in_all = 4u << 20;  // reached by shortening runs, see stack_table.h
};

class StackTable {
 public:
  // One return address of one target; 0 for an unknown or completely hidden one.
  struct Frame {
    std::uint32_t target = 0;  // index in profiles
    std::uint64_t address = 0;
    std::vector<std::uint32_t> locations;  // innermost first; never empty
  };
  struct Run {
    std::uint32_t frame = 0;
    std::uint32_t times = 0;  // at least 1

    friend bool operator==(const Run&, const Run&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Run& run) {
      return H::combine(std::move(h), run.frame, run.times);
    }
  };
  using Stack = std::vector<Run>;  // innermost first; never empty

  // The symbolizers must outlive this.
  explicit StackTable(const std::vector<TargetProfile>& profiles, const StackLimits& limits = {});

  // All locations of all targets, without duplicates. The symbolizers own them; none is null.
  const std::vector<const Location*>& locations() const { return locations_; }
  const std::vector<Frame>& frames() const { return frames_; }
  // Without hidden locations.
  const std::vector<Stack>& stacks() const { return stacks_; }
  // Index in stacks() of profiles[target].rows[row].
  std::uint32_t stack_of(std::size_t target, std::size_t row) const { return rows_[target][row]; }
  std::uint32_t target_of(std::uint32_t stack) const {
    return frames_[stacks_[stack].front().frame].target;
  }
  // Indexes in locations(), outermost first, all repeats.
  std::vector<std::uint32_t> from_root(std::uint32_t stack) const;

 private:
  friend class StackTableBuilder;
  std::size_t length(const Stack& stack, std::uint32_t repeats) const;
  void shorten(Stack& stack, std::size_t limit) const;
  void shorten_all(std::size_t limit);

  std::vector<const Location*> locations_;
  std::vector<Frame> frames_;
  std::vector<Stack> stacks_;
  std::vector<std::vector<std::uint32_t>> rows_;  // [target][row]
};

// Counts of all rows with the same callstack in the same target.
std::vector<Counters> counters_by_stack(const std::vector<TargetProfile>& profiles,
                                        const StackTable& table);

// "comm (pid N)", valid UTF-8 without control characters.
std::string target_title(const TargetProfile& profile);

}  // namespace memprofd
