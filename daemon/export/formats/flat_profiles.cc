// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/formats/flat_profiles.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/formats/recursion.h"
#include "daemon/export/formats/rounding.h"
#include "daemon/export/formats/stack_table.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/query/roll_up.h"
#include "daemon/util/json_text.h"
#include "daemon/util/utf8.h"
#include "daemon/util/version.h"

namespace memprofd {
namespace {

std::vector<double> column_of(const std::vector<Counters>& counters, Measure measure) {
  std::vector<double> column;
  column.reserve(counters.size());
  for (const Counters& c : counters) column.push_back(measure_value(c, measure));
  return column;
}

// ---------------------------------------------------------------- collapsed

std::string frame_name(const std::string& name) {
  std::string result = printable(name);
  std::replace(result.begin(), result.end(), ';', ':');
  return result.empty() ? "?" : result;
}

// The number of the name of each location.
std::vector<std::uint32_t> numbers_of(const std::vector<std::string>& names) {
  std::map<std::string, std::uint32_t> numbers;
  std::vector<std::uint32_t> out;
  out.reserve(names.size());
  for (const std::string& name : names) {
    out.push_back(
        numbers.try_emplace(name, static_cast<std::uint32_t>(numbers.size())).first->second);
  }
  return out;
}

std::string collapsed_stack(const std::vector<FoldedFrame>& stack,
                            const std::vector<std::string>& names, const std::string& root) {
  std::string line = root;
  for (const auto& [location, frames] : stack) {
    if (!line.empty()) line += ';';
    line += names[location];
  }
  return line;
}

// ---------------------------------------------------------------- speedscope

void append_frame(const Location& location, std::string& out) {
  absl::StrAppend(&out, "{\"name\":", json_string(location.function));
  if (!location.file.empty()) absl::StrAppend(&out, ",\"file\":", json_string(location.file));
  if (location.line > 0) {
    absl::StrAppend(&out, ",\"line\":", location.line, ",\"col\":", location.start_column + 1);
  }
  out += '}';
}

// Stacks of a measure, with similar ones side by side, because speedscope's time order shows stacks
// in this order.
class SpeedscopeWriter {
 public:
  explicit SpeedscopeWriter(const std::vector<TargetProfile>& profiles)
      : profiles_(profiles), table_(profiles), counters_(counters_by_stack(profiles, table_)) {
    for (std::uint32_t stack = 0; stack < table_.stacks().size(); ++stack) {
      stacks_.push_back(table_.from_root(stack));
      if (profiles.size() > 1) {
        stacks_.back().insert(stacks_.back().begin(), root_frame(table_.target_of(stack)));
      }
    }
    order_.resize(stacks_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return stacks_[a] < stacks_[b]; });
  }

  std::string text() const {
    std::string out = R"({"$schema":"https://www.speedscope.app/file-format-schema.json",)";
    absl::StrAppend(&out, "\"exporter\":\"memprofd@", program_version().version,
                    "\",\"name\":", json_string(name()),
                    ",\"activeProfileIndex\":0,\"shared\":{\"frames\":");
    append_json_array(table_.locations(), out, [](const Location* location, std::string& to) {
      append_frame(*location, to);
    });
    if (profiles_.size() > 1) append_root_frames(out);
    out += "},\"profiles\":";
    append_json_array(known_byte_measures(profiles_), out,
                      [&](const MeasureRow* m, std::string& to) { append_profile(*m, to); });
    return out += "}\n";
  }

 private:
  // Root frames come after the locations.
  std::uint32_t root_frame(std::uint32_t target) const {
    return static_cast<std::uint32_t>(table_.locations().size()) + target;
  }
  void append_root_frames(std::string& out) const {
    out.pop_back();  // the closing bracket
    for (const TargetProfile& profile : profiles_) {
      if (out.back() != '[') out += ',';
      append_frame({.function = target_title(profile)}, out);
    }
    out += ']';
  }

  std::string name() const {
    return profiles_.size() == 1 ? target_title(profiles_.front())
                                 : absl::StrCat(profiles_.size(), " programs");
  }

  void append_profile(const MeasureRow& measure, std::string& out) const {
    const std::vector<std::int64_t> values =
        round_keeping_sum(column_of(counters_, measure.measure));
    std::vector<std::uint32_t> shown;
    std::vector<std::int64_t> weights;
    for (const std::uint32_t stack : order_) {
      if (values[stack] == 0) continue;
      shown.push_back(stack);
      weights.push_back(values[stack]);
    }
    absl::StrAppend(&out, R"({"type":"sampled","name":")",
                    absl::string_view(measure.title.data(), measure.title.size()),
                    R"(","unit":"bytes","startValue":0,"endValue":)",
                    std::accumulate(weights.begin(), weights.end(), std::int64_t{0}),
                    ",\"samples\":");
    append_json_array(shown, out, [&](std::uint32_t stack, std::string& to) {
      append_json_numbers(stacks_[stack], to);
    });
    out += ",\"weights\":";
    append_json_numbers(weights, out);
    out += '}';
  }

  const std::vector<TargetProfile>& profiles_;
  const StackTable table_;
  const std::vector<Counters> counters_;            // by stack
  std::vector<std::vector<std::uint32_t>> stacks_;  // frames, outermost first
  std::vector<std::uint32_t> order_;
};

}  // namespace

absl::StatusOr<std::string> collapsed_stacks(const std::vector<TargetProfile>& profiles,
                                             Measure measure, Recursion recursion) {
  if (!measure_row(measure).is_sum()) {
    return absl::InvalidArgumentError(
        "lifetimes cannot be summed over callstacks; choose another measure, such as live");
  }
  const StackTable table(profiles);
  const auto values = round_keeping_sum(column_of(counters_by_stack(profiles, table), measure));
  std::vector<std::string> names;
  for (const Location* location : table.locations()) {
    names.push_back(frame_name(location->function));
  }
  const std::vector<std::uint32_t> function_of = numbers_of(names);
  std::map<std::string, std::int64_t> lines;  // sorted
  for (std::uint32_t stack = 0; stack < values.size(); ++stack) {
    if (values[stack] == 0) continue;
    std::string root;
    if (profiles.size() > 1) root = frame_name(target_title(profiles[table.target_of(stack)]));
    const std::vector<std::uint32_t> from_root = table.from_root(stack);
    const auto frames = recursion == Recursion::kFolded ? fold_recursion(from_root, function_of)
                                                        : unfolded(from_root);
    lines[collapsed_stack(frames, names, root)] += values[stack];
  }
  std::string out;
  for (const auto& [stack, value] : lines) absl::StrAppend(&out, stack, " ", value, "\n");
  return out;
}

std::string speedscope_json(const std::vector<TargetProfile>& profiles) {
  return SpeedscopeWriter(profiles).text();
}

}  // namespace memprofd
