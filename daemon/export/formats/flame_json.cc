// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/flame_json.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/aggregate/survival_curve.h"
#include "daemon/export/formats/recursion.h"
#include "daemon/export/formats/rounding.h"
#include "daemon/export/formats/stack_table.h"
#include "daemon/model/measure.h"
#include "daemon/query/group.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/util/json_text.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr StackLimits kLimits{.of_a_stack = 16384, .in_all = 8u << 20};

// Shows only measures that are known for all programs.
using FlameMeasures = std::vector<const MeasureRow*>;

Estimate estimate_of(const Counters& counters, const MeasureRow& measure) {
  return memprofd::estimate_of(counters, measure.blocks);
}

// Interns names, files, and functions (with their lines).
class FunctionTable {
 public:
  FunctionTable() { string(""); }

  std::uint32_t function(const Location& location) {
    const std::tuple key(string(location.function), string(location.file), location.line);
    const auto id = static_cast<std::uint32_t>(functions_.size());
    const auto [it, is_new] = ids_.try_emplace(key, id);
    if (is_new) functions_.push_back(key);
    return it->second;
  }

  // Interns a function at all its lines.
  std::uint32_t without_line(std::uint32_t function) {
    const auto& [name, file, line] = functions_[function];
    return lineless_ids_
        .try_emplace(std::pair(name, file), static_cast<std::uint32_t>(lineless_ids_.size()))
        .first->second;
  }

  void append_to(std::string& out) const {
    out += "\"strings\":";
    append_json_array(strings_, out,
                      [](const std::string& text, std::string& to) { to += json_string(text); });
    out += ",\"functions\":";
    append_json_array(functions_, out, [](const Function& function, std::string& to) {
      const auto& [name, file, line] = function;
      absl::StrAppend(&to, "[", name, ",", file, ",", line, "]");
    });
  }

 private:
  using Function = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // name, file, line

  std::uint32_t string(const std::string& text) {
    const auto [it, is_new] =
        string_ids_.try_emplace(text, static_cast<std::uint32_t>(strings_.size()));
    if (is_new) strings_.push_back(text);
    return it->second;
  }

  std::vector<std::string> strings_;
  std::vector<Function> functions_;
  absl::flat_hash_map<std::string, std::uint32_t> string_ids_;
  absl::flat_hash_map<Function, std::uint32_t> ids_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> lineless_ids_;
};

// A tree of merged callstacks; node 0 is the root.
class FlameTree {
 public:
  explicit FlameTree(std::size_t max_nodes)
      : max_nodes_(max_nodes), parents_{-1}, functions_{0}, frames_{1}, own_{0}, counters_(1) {}

  // The node of a function below a node; the node itself if the tree is full. frames: the number of
  // frames that it stands for in this callstack.
  std::uint32_t child(std::uint32_t node, std::uint32_t function, std::uint32_t frames = 1) {
    const std::uint64_t key = std::uint64_t{node} << 32 | function;
    if (parents_.size() >= max_nodes_) {
      const auto it = children_.find(key);
      if (it == children_.end()) return node;
      frames_[it->second] = std::max(frames_[it->second], frames);
      return it->second;
    }
    const auto next = static_cast<std::uint32_t>(parents_.size());
    const auto [it, is_new] = children_.try_emplace(key, next);
    if (is_new) {
      parents_.push_back(static_cast<std::int32_t>(node));
      functions_.push_back(function);
      frames_.push_back(1);
      own_.push_back(0);
    }
    frames_[it->second] = std::max(frames_[it->second], frames);
    return it->second;
  }
  // The counters of exactly this node.
  Counters& counters(std::uint32_t node) {
    if (own_[node] == 0) {
      own_[node] = static_cast<std::uint32_t>(counters_.size());
      counters_.emplace_back();
    }
    return counters_[own_[node]];
  }

  void append_to(std::string& out, const FlameMeasures& measures) const {
    out += "\"parent\":";
    append_json_numbers(parents_, out);
    out += ",\"function\":";
    append_json_numbers(functions_, out);
    if (std::ranges::any_of(frames_, [](std::uint32_t frames) { return frames > 1; })) {
      out += ",\"frames\":";
      append_json_numbers(frames_, out);
    }
    append_columns("self", measures, out, [&](const MeasureRow& measure, std::string& to) {
      append_json_numbers(bytes(measure), to);
    });
    append_columns("samples", measures, out, [&](const MeasureRow& measure, std::string& to) {
      append_json_array(own_, to, [&](std::uint32_t own, std::string& text) {
        absl::StrAppend(&text, estimate_of(counters_[own], measure).samples);
      });
    });
    append_columns("variance", measures, out, [&](const MeasureRow& measure, std::string& to) {
      append_json_array(own_, to, [&](std::uint32_t own, std::string& text) {
        const double words2 = estimate_of(counters_[own], measure).variance_words2;
        text += fmt::format("{:.4g}", words2 * kBytesPerWord * kBytesPerWord);
      });
    });
    append_columns("totals", measures, out,
                   [&](const MeasureRow& measure, std::string& to) { append_total(measure, to); });
    append_lifetimes(out);
  }

 private:
  template <typename Put>
  static void append_columns(const char* name, const FlameMeasures& measures, std::string& out,
                             Put put) {
    absl::StrAppend(&out, ",\"", name, "\":{");
    for (const MeasureRow* measure : measures) {
      absl::StrAppend(&out, out.back() == '{' ? "" : ",", "\"", measure->api_word(), "\":");
      put(*measure, out);
    }
    out += '}';
  }

  std::vector<std::int64_t> bytes(const MeasureRow& measure) const {
    std::vector<double> column;
    column.reserve(own_.size());
    for (const std::uint32_t own : own_)
      column.push_back(estimate_of(counters_[own], measure).bytes());
    return round_keeping_sum(column);
  }

  void append_total(const MeasureRow& measure, std::string& out) const {
    Estimate total;
    for (const Counters& counters : counters_) total += estimate_of(counters, measure);
    const std::vector<std::int64_t> column = bytes(measure);
    out += fmt::format("[{},{:.6g},{}]",
                       std::accumulate(column.begin(), column.end(), std::int64_t{0}),
                       total.variance_words2 > 0 ? total.stderr_bytes() : 0, total.samples);
  }

  // The median in seconds; if it is not reached, the time that it exceeds.
  void append_lifetimes(std::string& out) const {
    std::string longer_than;
    out += ",\"lifetime_p50\":";
    append_json_array(own_, out, [&](std::uint32_t own, std::string& to) {
      const SurvivalCurve curve(counters_[own]);
      const auto p50 = curve.quantile(0.5).ns;
      append_seconds(p50, to);
      longer_than += longer_than.empty() ? "" : ",";
      append_seconds(p50 || curve.empty() ? std::nullopt : std::optional(curve.watched_ns()),
                     longer_than);
    });
    absl::StrAppend(&out, ",\"lifetime_p50_longer_than\":[", longer_than, "]");
  }

  static void append_seconds(std::optional<double> ns, std::string& out) {
    if (!ns) {
      out += "null";
      return;
    }
    out += fmt::format("{:.4g}", *ns / 1e9);
  }

  const std::size_t max_nodes_;
  std::vector<std::int32_t> parents_;
  std::vector<std::uint32_t> functions_;
  std::vector<std::uint32_t> frames_;  // by node: the largest number of frames that it stands for
  std::vector<std::uint32_t> own_;     // by node: index in counters_
  std::vector<Counters> counters_;     // 0: none; few nodes have counters of their own
  absl::flat_hash_map<std::uint64_t, std::uint32_t> children_;  // by node and function
};

// Facts that the page shows above the graph.
void append_facts(const std::vector<TargetProfile>& profiles, const FlameMeasures& measures,
                  std::string& out) {
  const TargetProfile* only = profiles.size() == 1 ? &profiles.front() : nullptr;
  std::uint64_t begin_ns = profiles.empty() ? 0 : std::numeric_limits<std::uint64_t>::max();
  std::uint64_t end_ns = 0;
  std::uint64_t dropped = 0;
  double rate = profiles.empty() ? 0 : profiles.front().sampling_rate;  // 0: they differ
  for (const TargetProfile& profile : profiles) {
    begin_ns = std::min(begin_ns, profile.range.begin_ns);
    end_ns = std::max(end_ns, profile.range.end_ns);
    dropped += profile.dropped_events;
    if (profile.sampling_rate != rate) rate = 0;
  }
  const std::string title = only != nullptr ? "" : absl::StrCat(profiles.size(), " programs");
  absl::StrAppend(&out, "\"title\":", json_string(title), ",\"pid\":", only ? only->pid : 0,
                  ",\"comm\":", json_string(only ? printable(only->comm) : ""),
                  ",\"runtime_version\":", json_string(only ? only->runtime_version : ""));
  out += fmt::format(
      ",\"begin_unix_ms\":{},\"end_unix_ms\":{},\"sampling_rate\":{},"
      "\"dropped_events\":{},\"measures\":",
      begin_ns / 1'000'000, end_ns / 1'000'000, rate, dropped);
  append_json_array(measures, out, [](const MeasureRow* measure, std::string& to) {
    absl::StrAppend(&to, R"({"key":")", measure->api_word(), R"(","label":")", measure->label(),
                    R"(","unit":"bytes"})");
  });
}

// Begins with the heaviest, so that a full tree omits the lightest.
std::vector<std::uint32_t> by_weight(const std::vector<Counters>& counters) {
  std::vector<std::uint32_t> order(counters.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto weight = [&](std::uint32_t i) {
    return counters[i].allocated.words + counters[i].live.words;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return weight(a) > weight(b); });
  return order;
}

void grow(const std::vector<TargetProfile>& profiles, Recursion recursion, FunctionTable& functions,
          FlameTree& tree) {
  const StackTable table(profiles, kLimits);
  std::vector<std::uint32_t> function_of, lineless_of;  // by location
  for (const Location* location : table.locations()) {
    function_of.push_back(functions.function(*location));
    lineless_of.push_back(functions.without_line(function_of.back()));
  }
  std::vector<std::uint32_t> root_of;  // by target
  root_of.reserve(profiles.size());
  for (const TargetProfile& profile : profiles) {
    root_of.push_back(profiles.size() == 1
                          ? 0
                          : tree.child(0, functions.function({.function = target_title(profile)})));
  }
  const std::vector<Counters> counters = counters_by_stack(profiles, table);
  for (const std::uint32_t stack : by_weight(counters)) {
    std::uint32_t node = root_of[table.target_of(stack)];
    const std::vector<std::uint32_t> from_root = table.from_root(stack);
    for (const auto& [location, frames] : recursion == Recursion::kFolded
                                              ? fold_recursion(from_root, lineless_of)
                                              : unfolded(from_root)) {
      const std::uint32_t next = tree.child(node, function_of[location], frames);
      if (next == node) break;  // full
      node = next;
    }
    tree.counters(node) += counters[stack];
  }
}

}  // namespace

std::string flame_json(const std::vector<TargetProfile>& profiles, Recursion recursion,
                       std::size_t max_nodes) {
  FunctionTable functions;
  FlameTree tree(max_nodes);
  grow(profiles, recursion, functions, tree);
  std::string out = "{";
  const FlameMeasures measures = known_byte_measures(profiles);
  append_facts(profiles, measures, out);
  out += ',';
  functions.append_to(out);
  out += ',';
  tree.append_to(out, measures);
  return out += "}\n";
}

}  // namespace memprofd
