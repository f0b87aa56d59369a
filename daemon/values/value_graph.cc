// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/value_graph.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace memprofd {
namespace {

class GraphWalk {
 public:
  GraphWalk(ValueReader& reader, std::size_t nodes)
      : reader_(reader), limit_(std::min(nodes, kMaxGraphNodes)) {}

  ValueGraph run(std::uint64_t root) {
    add(root);
    // Further nodes are appended during the loop.
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::uint64_t word : std::exchange(words_[i], {})) {
        if (fields_left_ == 0) {
          graph_.is_cut = true;
          break;
        }
        --fields_left_;
        GraphField field{.value = reader_.read_alone(word)};
        field.node = field.value.kind == ValueKind::kInteger ? 0 : add(word);
        if (field.node > 0) {
          ++graph_.nodes[field.node - 1].references;
          field.value = Value();
        }
        graph_.nodes[i].fields.push_back(std::move(field));
      }
    }
    return std::move(graph_);
  }

 private:
  // The number of the word's node, from 1 on; 0: there is none.
  std::uint32_t add(std::uint64_t word) {
    if (const auto known = numbers_.find(word); known != numbers_.end()) return known->second;
    auto block = reader_.block_alone(word, kMaxGraphFields);
    if (!block) return 0;
    if (graph_.nodes.size() >= limit_) {
      graph_.is_cut = true;
      return 0;
    }
    graph_.nodes.push_back({.value = std::move(block->value)});
    words_.push_back(std::move(block->fields));
    return numbers_[word] = static_cast<std::uint32_t>(graph_.nodes.size());
  }

  ValueReader& reader_;
  const std::size_t limit_;
  std::size_t fields_left_ = kMaxFieldsOfGraph;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> numbers_;  // by address
  std::vector<std::vector<std::uint64_t>> words_;              // of each node
  ValueGraph graph_;
};

}  // namespace

ValueGraph read_graph(ValueReader& reader, std::uint64_t word, std::size_t nodes) {
  return GraphWalk(reader, nodes).run(word);
}

}  // namespace memprofd
