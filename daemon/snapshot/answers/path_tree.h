// SPDX-License-Identifier: Apache-2.0
// Shows what keeps sampled blocks alive: the shortest paths to them from roots, merged into one
// tree, with the memory behind each step.
//
//   97 %  global Cache, field 2 → block(4) field 1 → array[*] → block(3) up to ×12
//   80 %    field 1 → string
//   17 %    field 0 → block(2)
//
// Steps are equal if they lead from the same field to the same class of blocks. Steps from arrays
// are equal whatever the index ([*]), steps from a fiber's stack if the frame is at the same
// location. A step to another block of the same class (the next cell of a list, a child in a tree)
// repeats the step, and so do sequences of steps that repeat: types that refer to each other are a
// few steps that are made many times.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/answers/block_class.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/answers/shortest_paths.h"

namespace memprofd {

struct PathStep {
  // Position of the pointer in the previous block.
  static constexpr std::uint32_t kAnyField = ~0u;  // of an array
  static constexpr std::uint32_t kFromRoot = ~0u - 1;
  // Combined with a location: in that frame of a fiber.
  static constexpr std::uint32_t kFrame = 1u << 31;
  static constexpr std::uint32_t kUnknownFrame = ~0u - 3;

  std::uint32_t parent = 0;       // index in PathTree::steps(); the first step is its own parent
  std::uint32_t depth = 0;        // 0: common start of all paths, 1: a root
  std::uint32_t field = 0;        // unused for roots
  std::uint32_t block_class = 0;  // class of the block it leads to; for roots the number of their
                                  // name
  std::uint32_t times = 1;        // maximum number of repetitions in a row
  bool is_truncated = false;      // some paths are longer than the tree is deep
  SampledSum through;             // all paths with this step
  SampledSum here;                // the paths that end with it

  bool is_root() const { return depth == 1; }
};

class PathTree {
 public:
  // All must outlive this.
  PathTree(const HeapImage& image, const BlockClasses& classes, const ShortestPaths& paths);

  // Adds the path to a reachable block. Call sum_up() after the last one.
  void add(std::uint32_t block, const SampledSum& sum);
  void sum_up();

  const std::vector<PathStep>& steps() const { return steps_; }  // each after its parent
  // The steps below each step, those with the most memory first.
  std::vector<std::vector<std::uint32_t>> children() const;
  // Text to append to that of the previous step: "global Cache, field 2", " → block(4)", " field 1
  // → array", ".data → array", "[*] → block(3) up to ×12".
  std::string text(std::uint32_t step) const;

 private:
  // Maximum number of steps of one path; a longer one ends at the last, marked as such.
  static constexpr std::uint32_t kMaxDepth = 48;
  static constexpr std::uint32_t kMaxSteps = 1'000'000;
  static constexpr std::uint32_t kLongestPeriod = 4;
  static constexpr std::size_t kBlocksOfPosition = 16;
  static constexpr std::uint32_t kSameStep = ~0u - 2;  // as a field: to a block of the same class

  // The position of a block in the tree.
  struct Position {
    std::uint32_t step = 0;
    std::uint32_t repeated = 0;  // the step that was repeated before it
    std::uint32_t times = 1;
  };
  struct Key {
    std::uint32_t field = 0;
    std::uint32_t block_class = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  void keep(std::uint32_t block, const Position& position);
  Position position_of_first(std::uint32_t block);
  Position position_after(const Position& before, const Key& key);
  Key key_between(std::uint32_t from, std::uint32_t to) const;
  std::uint32_t field_between(std::uint32_t from, std::uint32_t to) const;
  std::uint32_t position_in(std::uint32_t block, std::uint8_t field) const;
  bool is_key(std::uint32_t step, const Key& key) const;
  // The step that another one with this key would repeat, or 0.
  std::uint32_t repeated_by(std::uint32_t last, const Key& key) const;
  std::uint32_t child(std::uint32_t parent, const Key& key);

  const HeapImage& image_;
  const BlockClasses& classes_;
  const ShortestPaths& paths_;
  std::vector<PathStep> steps_{1};
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> children_;
  // The positions of one in a few blocks on the paths so far; the others follow from these.
  absl::flat_hash_map<std::uint32_t, Position> positions_;
  std::vector<bool> has_place_;
  std::vector<std::uint32_t> root_path_;
};

}  // namespace memprofd
