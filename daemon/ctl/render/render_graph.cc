// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "daemon/ctl/render/render_values.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

constexpr char kMore[] = "..: more blocks than shown\n";
// Deeper nodes are shown at this depth.
constexpr std::size_t kDeepest = 60;

// Describes the node without its fields.
std::string node_text(const pb::Value& value) {
  if (value.kind() == pb::VALUE_KIND_REFERENCE) return "ref";
  if (value.kind() != pb::VALUE_KIND_BLOCK) return value_text(value);
  const std::string fields = fmt::format("{{{} fields}}", value.size());
  return value.tag() == 0 ? fields : fmt::format("tag {} {}", value.tag(), fields);
}

bool is_shared(const pb::Value& graph, std::uint32_t node) {
  return graph.graph(static_cast<int>(node)).references() > (node == 0 ? 0 : 1);
}

// Walks depth first with its own stack, because a program's list may have any length.
std::vector<std::string> lines_of(const pb::Value& value) {
  struct Step {
    std::uint32_t node;
    int field;
  };
  std::vector<bool> seen(value.graph_size());
  std::vector<std::string> lines;
  std::vector<Step> open;
  const auto visit = [&](std::uint32_t node) {
    std::string line(2 * std::min(open.size(), kDeepest), ' ');
    if (is_shared(value, node)) absl::StrAppend(&line, "#", node + 1, seen[node] ? "" : " ");
    if (!seen[node]) {
      absl::StrAppend(&line, node_text(value.graph(static_cast<int>(node)).value()));
    }
    lines.push_back(std::move(line));
    if (!seen[node]) open.push_back({node, 0});
    seen[node] = true;
  };
  visit(0);
  while (!open.empty()) {
    Step& step = open.back();
    const pb::GraphNode& node = value.graph(static_cast<int>(step.node));
    if (step.field == node.fields_size()) {
      open.pop_back();
      continue;
    }
    const pb::GraphField& field = node.fields(step.field++);
    if (field.node() > 0 && field.node() <= static_cast<std::uint32_t>(value.graph_size())) {
      visit(field.node() - 1);
    } else {
      lines.push_back(std::string(2 * std::min(open.size(), kDeepest), ' ') +
                      value_text(field.value()));
    }
  }
  return lines;
}

// Quotes the text for Graphviz.
std::string quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace

std::string graph_text(const pb::Value& value) {
  if (value.graph().empty()) return value_text(value) + "\n";
  std::string text = absl::StrJoin(lines_of(value), "\n") + "\n";
  if (value.is_changing()) absl::StrAppend(&text, "(changing)\n");
  if (value.graph_is_cut()) absl::StrAppend(&text, kMore);
  return text;
}

std::string graph_dot(const pb::Value& value) {
  std::string text = "digraph value {\n  node [shape=box];\n";
  for (int i = 0; i < value.graph_size(); ++i) {
    const pb::GraphNode& node = value.graph(i);
    std::string label = node_text(node.value());
    for (const pb::GraphField& field : node.fields()) {
      absl::StrAppend(&label, " ", field.node() > 0 ? "*" : value_text(field.value()));
    }
    absl::StrAppend(&text, "  n", i + 1, " [label=", quoted(printable(label)), "];\n");
    for (int j = 0; j < node.fields_size(); ++j) {
      const std::uint32_t to = node.fields(j).node();
      if (to > 0) absl::StrAppend(&text, "  n", i + 1, " -> n", to, " [label=", j, "];\n");
    }
  }
  return text + "}\n";
}

}  // namespace memprofd::ctl
