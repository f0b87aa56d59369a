// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/root_tree.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

struct KindText {
  const char* many;
  const char* one;
};

KindText kind_text(RootKind kind) {
  switch (kind) {
    case RootKind::kGlobal:
      return {"globals", "global"};
    case RootKind::kDynamicGlobal:
      return {"globals of plugins", "global of plugin"};
    case RootKind::kStack:
      return {"stacks", "stack of"};
    case RootKind::kLocalC:
      return {"C code that runs", "C code that runs"};
    case RootKind::kGlobalC:
      return {"registered by C code", "registered by C code"};
    case RootKind::kFinaliser:
      return {"finalisers", "finaliser"};
    case RootKind::kMemprof:
      return {"Memprof", "Memprof"};
    case RootKind::kMarked:
      return {"marked by the program", "marked by the program"};
    case RootKind::kOther:
      break;
  }
  return {"other roots", "other root"};
}

std::string field_text(const RootName& name) {
  return name.label.empty() ? absl::StrCat("field ", name.field) : name.label;
}

class TreeBuilder {
 public:
  TreeBuilder() { tree_.nodes.push_back({.name = "all roots"}); }

  void add(const RootName& name) {
    std::uint32_t node = child(0, kind_text(name.kind).many);
    if (!name.owner.empty()) node = child(node, name.owner);
    if (name.field != RootName::kNoField) node = child(node, field_text(name));
    if (!name.place.function.empty()) node = child(node, place_text(name.place));
    tree_.of_name.push_back(node);
  }
  RootTree take() { return std::move(tree_); }

 private:
  std::uint32_t child(std::uint32_t parent, const std::string& name) {
    const auto next = static_cast<std::uint32_t>(tree_.nodes.size());
    const auto [at, is_new] = known_.try_emplace(std::pair(parent, name), next);
    if (is_new) tree_.nodes.push_back({parent, tree_.nodes[parent].depth + 1, name});
    return at->second;
  }

  RootTree tree_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::string>, std::uint32_t> known_;
};

}  // namespace

const char* root_kind_text(RootKind kind) { return kind_text(kind).many; }

std::string place_text(const Location& place) {
  if (place.file.empty()) return place.function;
  if (place.line == 0) return absl::StrCat(place.function, " ", place.file);
  return absl::StrCat(place.function, " ", place.file, ":", place.line);
}

std::string root_text(const RootName& name) {
  std::string text = kind_text(name.kind).one;
  if (!name.owner.empty()) absl::StrAppend(&text, " ", name.owner);
  if (name.field != RootName::kNoField) {
    absl::StrAppend(&text, name.label.empty() ? ", " : ".", field_text(name));
  }
  if (!name.place.function.empty()) absl::StrAppend(&text, ", ", place_text(name.place));
  return text;
}

void join_threads(HeapImage& image) {
  const auto can_join = [](const RootName& name) {
    return name.kind == RootKind::kStack && !name.owner.empty() && !name.place.function.empty();
  };
  absl::flat_hash_map<std::string, absl::flat_hash_set<std::string>> threads;  // by place
  for (const RootName& name : image.root_names) {
    if (can_join(name)) threads[place_text(name.place)].insert(name.owner);
  }
  std::vector<RootName> names;
  std::vector<std::uint32_t> new_number;
  absl::flat_hash_map<std::string, std::uint32_t> joined;  // by place
  for (RootName& name : image.root_names) {
    const auto next = static_cast<std::uint32_t>(names.size());
    const std::string place = can_join(name) ? place_text(name.place) : "";
    const std::size_t number = place.empty() ? 0 : threads[place].size();
    if (number > kFewThreads) {
      const auto [at, is_new] = joined.try_emplace(place, next);
      new_number.push_back(at->second);
      if (!is_new) continue;
      name.owner = absl::StrCat(number, " threads");
    } else {
      new_number.push_back(next);
    }
    names.push_back(std::move(name));
  }
  image.root_names = std::move(names);
  for (ImageRoot& root : image.roots) root.name = new_number[root.name];
}

RootTree make_root_tree(const HeapImage& image) {
  TreeBuilder builder;
  for (const RootName& name : image.root_names) builder.add(name);
  return builder.take();
}

RootsInGraph::RootsInGraph(const RootTree& tree, HeapImage& image)
    : edges_(image.edges), nodes_(image.blocks()) {
  std::vector<std::vector<std::uint32_t>> held(tree.nodes.size());
  for (std::uint32_t node = 1; node < tree.nodes.size(); ++node) {
    held[tree.nodes[node].parent].push_back(image.blocks() + node);
  }
  for (const ImageRoot& root : image.roots) held[tree.of_name[root.name]].push_back(root.block);
  edges_.first.reserve(nodes_ + 1 + tree.nodes.size());
  edges_.to.reserve(edges_.to.size() + tree.nodes.size() + image.roots.size());
  for (const auto& of_node : held) {
    edges_.to.insert(edges_.to.end(), of_node.begin(), of_node.end());
    edges_.first.push_back(static_cast<std::uint32_t>(edges_.to.size()));
  }
}

RootsInGraph::~RootsInGraph() {
  edges_.first.cut(nodes_ + 1);
  edges_.to.resize(edges_.first.back());
}

}  // namespace memprofd
