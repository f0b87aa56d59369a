// SPDX-License-Identifier: Apache-2.0
#include "daemon/rules/memory_rule.h"

#include <fnmatch.h>
#include <re2/re2.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/model/location.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

struct KindRow {
  RuleKind kind;
  const char* key;
  const char* at_end;  // "live at the end <= 64 MiB"
  const char* running;
  bool is_time;
  bool may_have_per;
};
constexpr KindRow kKinds[] = {
    {RuleKind::kLive, "max-live", "live at the end", "live", false, false},
    {RuleKind::kPeak, "max-peak", "live at the peak", "live at the peak", false, false},
    {RuleKind::kAllocated, "max-allocated", "allocated", "allocated", false, true},
    {RuleKind::kGrowth, "max-growth", "growth", "growth", false, true},
    {RuleKind::kLifetime, "max-lifetime", "lifetime of 99 %", "lifetime of 99 %", true, false},
    {RuleKind::kAge, "max-age", "age", "age", true, false},
};
constexpr char kForm[] =
    "write one of max-live, max-peak, max-allocated, max-growth, max-lifetime, max-age, and of, "
    "module, program, per, name or snapshot beside it";
constexpr std::size_t kMaxNameBytes = 100;

const KindRow& row_of(RuleKind kind) { return *std::ranges::find(kKinds, kind, &KindRow::kind); }

absl::Status file_error(const std::string& path, const YAML::Mark& mark, std::string_view why) {
  const std::string line = mark.line >= 0 ? absl::StrCat("line ", mark.line + 1, ": ") : "";
  return absl::InvalidArgumentError(
      absl::StrCat("--rules ", path, ": ", line, absl::string_view(why.data(), why.size())));
}

// Reads a key of a rule other than its limit.
absl::Status set_detail(const std::string& key, const YAML::Node& node, MemoryRule& rule) {
  const auto value = node.as<std::string>();
  if (key == "of") {
    rule.pattern = value;
  } else if (key == "module") {
    if (!is_unit_name(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", value, "\" is not the name of a compilation unit"));
    }
    rule.module = value;
  } else if (key == "program") {
    rule.program = value;
  } else if (key == "per") {
    ASSIGN_OR_RETURN(rule.per_seconds, parse_duration(value));
    if (rule.per_seconds == 0) return absl::InvalidArgumentError("per must be above 0");
  } else if (key == "name") {
    if (value.empty() || value.size() > kMaxNameBytes || printable(value) != value) {
      return absl::InvalidArgumentError(
          absl::StrCat("name must be of 1 to ", kMaxNameBytes, " printable bytes"));
    }
    rule.name = value;
  } else if (key == "snapshot") {
    rule.snapshot = node.as<bool>();
  } else {
    return absl::InvalidArgumentError(absl::StrCat("unexpected ", key, "; ", kForm));
  }
  return absl::OkStatus();
}

absl::StatusOr<MemoryRule> rule_of_node(const std::string& path, const YAML::Node& node) {
  if (!node.IsMap()) return file_error(path, node.Mark(), absl::StrCat("not a rule; ", kForm));
  const KindRow* kind = nullptr;
  std::string limit;
  MemoryRule details;
  for (const auto& entry : node) {
    const auto key = entry.first.as<std::string>();
    const auto* row = std::ranges::find(kKinds, std::string_view(key), [](const KindRow& each) {
      return std::string_view(each.key);
    });
    if (row == std::end(kKinds)) {
      const absl::Status set = set_detail(key, entry.second, details);
      if (!set.ok()) return file_error(path, entry.first.Mark(), std::string(set.message()));
    } else if (kind != nullptr) {
      return file_error(path, entry.first.Mark(), absl::StrCat("unexpected ", key, "; ", kForm));
    } else {
      kind = row;
      limit = entry.second.as<std::string>();
    }
  }
  if (kind == nullptr) return file_error(path, node.Mark(), absl::StrCat("no limit; ", kForm));
  if (details.per_seconds > 0 && !kind->may_have_per) {
    return file_error(path, node.Mark(),
                      "unexpected per; only max-allocated and max-growth can have one");
  }
  const auto made =
      make_rule(kind->kind, details.pattern, limit, absl::StrCat(kind->key, " ", limit), "");
  if (!made.ok()) return file_error(path, node.Mark(), std::string(made.status().message()));
  details.kind = kind->kind;
  details.limit = made->limit;
  return details;
}

}  // namespace

bool is_time_limit(RuleKind kind) { return row_of(kind).is_time; }

const char* rule_key(RuleKind kind) { return row_of(kind).key; }

absl::StatusOr<MemoryRule> make_rule(RuleKind kind, const std::string& pattern,
                                     const std::string& limit, const std::string& source,
                                     const char* form) {
  MemoryRule rule{.kind = kind, .pattern = pattern};
  const auto refused = [&](std::string_view why, const char* remedy) {
    return absl::InvalidArgumentError(
        absl::StrCat("rule ", source, ": ", absl::string_view(why.data(), why.size()), remedy));
  };
  if (!pattern.empty()) {
    const RE2 compiled(pattern, RE2::Quiet);
    if (!compiled.ok()) return refused(absl::StrCat("bad pattern: ", compiled.error()), "");
  }
  if (is_time_limit(kind)) {
    const absl::StatusOr<double> seconds = parse_duration(limit);
    if (!seconds.ok()) return refused(std::string(seconds.status().message()), form);
    rule.limit = *seconds;
  } else if (limit != "0") {
    const absl::StatusOr<std::uint64_t> bytes = parse_size(limit);
    if (!bytes.ok()) return refused(std::string(bytes.status().message()), form);
    rule.limit = static_cast<double>(*bytes);
  }
  return rule;
}

absl::StatusOr<std::vector<MemoryRule>> read_rules(const std::string& path) {
  try {  // yaml-cpp reports through exceptions
    const YAML::Node root = YAML::LoadFile(path);
    const bool is_list =
        root.IsMap() && root.size() == 1 && root["rules"] && root["rules"].IsSequence();
    if (!is_list) return file_error(path, root.Mark(), "is not one list named rules");
    if (root["rules"].size() > kMaxRules) {
      return file_error(path, root.Mark(), absl::StrCat("has more than ", kMaxRules, " rules"));
    }
    std::vector<MemoryRule> rules;
    std::set<std::string> names;
    for (const YAML::Node& node : root["rules"]) {
      ASSIGN_OR_RETURN(MemoryRule rule, rule_of_node(path, node));
      if (rule.name.empty()) rule.name = rule_text(rule, true).substr(0, kMaxNameBytes);
      if (!names.insert(rule.program + '\n' + rule.name).second) {
        return file_error(path, node.Mark(),
                          absl::StrCat("another rule is called ", rule.name,
                                       ", too; give each a name of its own"));
      }
      rules.push_back(std::move(rule));
    }
    return rules;
  } catch (const YAML::BadFile&) {
    return file_error(path, YAML::Mark::null_mark(), "cannot be read; check path and permissions");
  } catch (const YAML::Exception& error) {
    return file_error(path, error.mark, error.msg);
  }
}

bool is_of_program(const MemoryRule& rule, const std::string& comm) {
  return rule.program.empty() || ::fnmatch(rule.program.c_str(), comm.c_str(), 0) == 0;
}

std::string rule_text(const MemoryRule& rule, bool running) {
  const KindRow& row = row_of(rule.kind);
  std::string out = absl::StrCat(running ? row.running : row.at_end, " <= ",
                                 rule.from_baseline ? "baseline"
                                 : row.is_time      ? format_duration(rule.limit)
                                                    : format_bytes(rule.limit));
  if (rule.per_seconds > 0) absl::StrAppend(&out, " per ", format_duration(rule.per_seconds));
  if (!rule.pattern.empty()) absl::StrAppend(&out, " of ", rule.pattern);
  if (!rule.module.empty()) absl::StrAppend(&out, " of module ", rule.module);
  return out;
}

}  // namespace memprofd
