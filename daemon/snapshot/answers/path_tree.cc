// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/path_tree.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/answers/root_tree.h"

namespace memprofd {

PathTree::PathTree(const HeapImage& image, const BlockClasses& classes, const ShortestPaths& paths)
    : image_(image), classes_(classes), paths_(paths), has_place_(image.blocks()) {}

void PathTree::add(std::uint32_t block, const SampledSum& sum) {
  for (; !has_place_[block]; block = paths_.block_before(block)) {
    root_path_.push_back(block);
    if (paths_.begins_at(block)) break;
  }
  Position position;
  if (has_place_[block]) {
    position = positions_[block];
  } else {
    position = position_of_first(block);
    root_path_.pop_back();
    keep(block, position);
  }
  for (; !root_path_.empty(); root_path_.pop_back()) {
    const std::uint32_t next = root_path_.back();
    position = position_after(position, key_between(block, next));
    block = next;
    if (root_path_.size() % kBlocksOfPosition == 1) keep(block, position);
  }
  steps_[position.step].here += sum;
}

void PathTree::keep(std::uint32_t block, const Position& position) {
  has_place_[block] = true;
  positions_.emplace(block, position);
}

PathTree::Position PathTree::position_of_first(std::uint32_t block) {
  const std::uint32_t root = child(0, {0, paths_.root_name_at(block)});
  return {.step = child(root, {PathStep::kFromRoot, classes_.of(block)})};
}

PathTree::Position PathTree::position_after(const Position& before, const Key& key) {
  Position position = before;
  const bool is_same = key.field == kSameStep;
  if (const auto step = is_same ? before.step : repeated_by(before.step, key); step != 0) {
    position.times = before.repeated == step ? before.times + 1 : 2;
    position.step = position.repeated = step;
    steps_[step].times = std::max(steps_[step].times, position.times);
    return position;
  }
  const bool has_room = steps_[before.step].depth < kMaxDepth && steps_.size() < kMaxSteps;
  if (has_room) {
    position.step = child(before.step, key);
  } else {
    steps_[before.step].is_truncated = true;
  }
  return position;
}

bool PathTree::is_key(std::uint32_t step, const Key& key) const {
  return steps_[step].depth > 1 && steps_[step].field == key.field &&
         steps_[step].block_class == key.block_class;
}

// Returns the earlier step that the key repeats; 0: none. After steps a, b, c, d, the key e repeats
// step c with a period of two if e is like c and d is like b.
std::uint32_t PathTree::repeated_by(std::uint32_t last, const Key& key) const {
  std::uint32_t step = last;
  for (std::uint32_t period = 1; period <= kLongestPeriod; ++period) {
    if (steps_[step].depth <= 1) return 0;
    if (is_key(step, key)) {
      std::uint32_t newer = last, older = steps_[step].parent;
      for (; newer != step; newer = steps_[newer].parent, older = steps_[older].parent) {
        if (!is_key(older, {steps_[newer].field, steps_[newer].block_class})) break;
      }
      if (newer == step) return step;
    }
    step = steps_[step].parent;
  }
  return 0;
}

PathTree::Key PathTree::key_between(std::uint32_t from, std::uint32_t to) const {
  const std::uint32_t from_class = classes_.of(from), to_class = classes_.of(to);
  if (classes_.is_array(from_class)) return {PathStep::kAnyField, to_class};
  const std::uint32_t field = field_between(from, to);
  if (from_class != to_class) return {field, to_class};
  // A pair may be a cell of a list, whose tail continues the list, or contain another pair.
  const bool is_pair = classes_.fields(from_class) == 2 && image_.shape(from).tag == 0;
  return {is_pair && field != 1 ? field : kSameStep, to_class};
}

// Returns the number of a field, or the frame of a fiber, which comes after the fields.
std::uint32_t PathTree::position_in(std::uint32_t block, std::uint8_t field) const {
  const BlockShape& shape = image_.shape(block);
  if (field < shape.words - 1) return field != HeapImage::kFarField ? field : PathStep::kAnyField;
  const std::uint64_t frame = field - (shape.words - 1);
  const bool is_known = field != HeapImage::kFarField && shape.site != BlockShape::kNoSite &&
                        frame < image_.sites[shape.site].size();
  return is_known ? PathStep::kFrame | image_.sites[shape.site][frame] : PathStep::kUnknownFrame;
}

// Fields are in ascending order, so all edges after the first ones are far.
std::uint32_t PathTree::field_between(std::uint32_t from, std::uint32_t to) const {
  const std::uint64_t first = image_.edges.first[from];
  const std::uint64_t end =
      std::min<std::uint64_t>(image_.edges.first[from + 1], first + HeapImage::kFarField);
  for (std::uint64_t edge = first; edge < end; ++edge) {
    if (image_.edges.to[edge] == to) return position_in(from, image_.fields[edge]);
  }
  return PathStep::kAnyField;
}

std::uint32_t PathTree::child(std::uint32_t parent, const Key& key) {
  const auto next = static_cast<std::uint32_t>(steps_.size());
  const std::uint64_t number = std::uint64_t{key.field} << 32 | key.block_class;
  const auto [at, is_new] = children_.try_emplace(std::pair(parent, number), next);
  if (is_new) {
    PathStep step;
    step.parent = parent;
    step.depth = steps_[parent].depth + 1;
    step.field = key.field;
    step.block_class = key.block_class;
    steps_.push_back(step);
  }
  return at->second;
}

void PathTree::sum_up() {
  for (PathStep& step : steps_) step.through = step.here;
  for (std::size_t i = steps_.size() - 1; i > 0; --i) {
    steps_[steps_[i].parent].through += steps_[i].through;
  }
}

std::vector<std::vector<std::uint32_t>> PathTree::children() const {
  std::vector<std::vector<std::uint32_t>> children(steps_.size());
  for (std::uint32_t i = 1; i < steps_.size(); ++i) children[steps_[i].parent].push_back(i);
  for (auto& of_step : children) {
    std::stable_sort(of_step.begin(), of_step.end(), [&](std::uint32_t a, std::uint32_t b) {
      const SampledSum &of_a = steps_[a].through, &of_b = steps_[b].through;
      return std::pair(of_a.estimate.words, of_a.blocks) >
             std::pair(of_b.estimate.words, of_b.blocks);
    });
  }
  return children;
}

std::string PathTree::text(std::uint32_t number) const {
  const PathStep& step = steps_[number];
  if (step.is_root()) return root_text(image_.root_names[step.block_class]);
  std::string text;
  if (step.field == PathStep::kAnyField) {
    text = "[*]";
  } else if (step.field == PathStep::kUnknownFrame) {
    text = " stack";
  } else if (step.field != PathStep::kFromRoot && (step.field & PathStep::kFrame) != 0) {
    const Location& frame = image_.locations[step.field & ~PathStep::kFrame];
    text = frame.function.empty() ? " stack" : absl::StrCat(" stack, ", place_text(frame));
  } else if (step.field != PathStep::kFromRoot) {
    const std::string& label = classes_.label(steps_[step.parent].block_class, step.field);
    const char* before = steps_[step.parent].times > 1 ? " ." : ".";
    text = label.empty() ? absl::StrCat(" field ", step.field) : absl::StrCat(before, label);
  }
  absl::StrAppend(&text, " → ", classes_.text(step.block_class));
  if (step.times > 1) absl::StrAppend(&text, " up to ×", step.times);
  if (step.is_truncated) absl::StrAppend(&text, " → …");
  return text;
}

}  // namespace memprofd
