// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/tree_rows.h"

#include <functional>
#include <utility>

namespace memprofd {
namespace {

using Children = std::vector<std::vector<std::uint32_t>>;

// Walks the lines of a tree in reading order, without recursion.
class TreeWalk {
 public:
  // weight: of an item; an item of weight 0 is never shown. leave_out: adds an item to the line
  // that sums up omitted items.
  TreeWalk(const Children& children, std::size_t limit, double least,
           std::function<double(std::uint32_t)> weight,
           std::function<void(std::uint32_t, TreeLine&)> leave_out)
      : children_(children),
        limit_(limit),
        least_(limit == 0 ? 0 : least),
        weight_(std::move(weight)),
        leave_out_(std::move(leave_out)) {}

  // The item that was put last comes first.
  void put(std::uint32_t item) { todo_.push_back({.item = item}); }
  // down: maps the first item of a line to the item at which the line ends.
  template <typename Down>
  std::vector<TreeLine> lines(Down down) {
    std::vector<TreeLine> lines;
    while (!todo_.empty()) {
      TreeLine line = std::move(todo_.back());
      todo_.pop_back();
      if (line.more == 0) put_below(down(line), line.depth + 1);
      lines.push_back(std::move(line));
    }
    return lines;
  }
  void put_below(std::uint32_t item, std::uint32_t depth) {
    const auto& below = children_[item];
    std::size_t n = 0;
    while (n < below.size() && (limit_ == 0 || n < limit_) && weight_(below[n]) > 0 &&
           weight_(below[n]) >= least_) {
      ++n;
    }
    TreeLine more{.item = item, .depth = depth};
    for (std::size_t i = n; i < below.size() && weight_(below[i]) > 0; ++i, ++more.more) {
      leave_out_(below[i], more);
    }
    if (more.more != 0) todo_.push_back(more);
    for (std::size_t i = n; i > 0; --i) todo_.push_back({.item = below[i - 1], .depth = depth});
  }

 private:
  const Children& children_;
  const std::size_t limit_;
  const double least_;
  const std::function<double(std::uint32_t)> weight_;
  const std::function<void(std::uint32_t, TreeLine&)> leave_out_;
  std::vector<TreeLine> todo_;
};

}  // namespace

std::vector<TreeLine> retained_lines(const RetainedTable& table,
                                     const std::vector<std::uint32_t>& tops,
                                     const TreeLimits& limits) {
  const Children children = table.children();
  const auto weight = [&](std::uint32_t row) {
    return static_cast<double>(table.rows[row].all_bytes());
  };
  double all = 0;
  for (const std::uint32_t top : tops) all += weight(top);
  TreeWalk walk(children, limits.limit, all * limits.min_share, weight,
                [&](std::uint32_t row, TreeLine& line) {
                  line.more_words += table.rows[row].words;
                  line.more_outside_bytes += table.rows[row].outside_bytes;
                });
  for (std::size_t i = tops.size(); i > 0; --i) walk.put(tops[i - 1]);
  return walk.lines([](const TreeLine& line) { return line.item; });
}

std::vector<TreeLine> path_lines(const PathTree& tree, const TreeLimits& limits) {
  const Children children = tree.children();
  const auto blocks = [&](std::uint32_t step) { return tree.steps()[step].through.blocks; };
  // Without a sampling rate there is no estimate in words.
  const auto weight = [&](std::uint32_t step) {
    const SampledSum& sum = tree.steps()[step].through;
    return sum.estimate.words > 0 ? sum.estimate.words : static_cast<double>(sum.blocks);
  };
  TreeWalk walk(children, limits.limit, weight(0) * limits.min_share, weight,
                [](std::uint32_t, TreeLine&) {});
  walk.put_below(0, 0);
  return walk.lines([&](TreeLine& line) {
    std::uint32_t last = line.item;
    line.text = tree.text(last);
    if (line.text.starts_with(' ')) line.text.erase(0, 1);
    while (!children[last].empty() && blocks(children[last][0]) == blocks(last)) {
      last = children[last][0];
      line.text += tree.text(last);
    }
    return last;
  });
}

}  // namespace memprofd
