// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/heap_rules.h"

#include <google/protobuf/util/json_util.h>
#include <re2/re2.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/ctl/render/text.h"
#include "daemon/util/estimate.h"
#include "daemon/util/lower_limit.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

constexpr double kSure = 3.0902;  // the quantile of 999 in 1000

struct KindRow {
  RuleKind kind;
  const char* key;  // in a file of rules; an option is the same after --
  std::vector<std::string> RuleOptions::*texts;
  const char* words;  // "live at the end <= 64 MiB"
};
constexpr KindRow kKinds[] = {
    {RuleKind::kLive, "max-live", &RuleOptions::max_live, "live at the end"},
    {RuleKind::kPeak, "max-peak", &RuleOptions::max_peak, "live at the peak"},
    {RuleKind::kAllocated, "max-allocated", &RuleOptions::max_allocated, "allocated"},
};

const KindRow& row_of(RuleKind kind) { return *std::ranges::find(kKinds, kind, &KindRow::kind); }

// source: the text of the rule, for messages. form: what to write instead of a bad size.
absl::StatusOr<HeapRule> make_rule(RuleKind kind, std::string pattern, const std::string& size,
                                   const std::string& source, const char* form) {
  HeapRule rule{.kind = kind, .pattern = std::move(pattern)};
  if (!rule.pattern.empty()) {
    const RE2 compiled(rule.pattern, RE2::Quiet);
    if (!compiled.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rule ", source, ": bad pattern: ", compiled.error()));
    }
  }
  if (size != "0") {
    const absl::StatusOr<std::uint64_t> bytes = parse_size(size);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rule ", source, ": ", bytes.status().message(), form));
    }
    rule.limit_bytes = static_cast<double>(*bytes);
  }
  return rule;
}

// The last = parts pattern and size: a pattern may have some of its own.
absl::StatusOr<HeapRule> parse_rule(RuleKind kind, const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const bool has_pattern = equals != std::string::npos;
  return make_rule(kind, has_pattern ? text.substr(0, equals) : std::string(),
                   has_pattern ? text.substr(equals + 1) : text, text,
                   "; write SIZE, or PATTERN=SIZE");
}

absl::Status file_error(const std::string& path, const YAML::Mark& mark, std::string_view why) {
  const std::string line = mark.line >= 0 ? absl::StrCat("line ", mark.line + 1, ": ") : "";
  return absl::InvalidArgumentError(
      absl::StrCat("--rules ", path, ": ", line, absl::string_view(why.data(), why.size())));
}

absl::StatusOr<HeapRule> rule_of_node(const std::string& path, const YAML::Node& node) {
  constexpr char kForm[] = "write one of max-live, max-peak, max-allocated, and of for a pattern";
  if (!node.IsMap()) return file_error(path, node.Mark(), absl::StrCat("not a rule; ", kForm));
  const KindRow* kind = nullptr;
  std::string size, pattern;
  for (const auto& entry : node) {
    const auto key = entry.first.as<std::string>(), value = entry.second.as<std::string>();
    const auto* row = std::ranges::find(kKinds, std::string_view(key), [](const KindRow& each) {
      return std::string_view(each.key);
    });
    if (key == "of") {
      pattern = value;
    } else if (row == std::end(kKinds) || kind != nullptr) {
      return file_error(path, entry.first.Mark(), absl::StrCat("unexpected ", key, "; ", kForm));
    } else {
      kind = row;
      size = value;
    }
  }
  if (kind == nullptr) return file_error(path, node.Mark(), absl::StrCat("no limit; ", kForm));
  absl::StatusOr<HeapRule> rule =
      make_rule(kind->kind, pattern, size, absl::StrCat(kind->key, " ", size), "");
  if (!rule.ok()) return file_error(path, node.Mark(), std::string(rule.status().message()));
  return rule;
}

absl::StatusOr<std::vector<HeapRule>> read_rules(const std::string& path) {
  try {  // yaml-cpp reports through exceptions
    const YAML::Node root = YAML::LoadFile(path);
    const bool is_list =
        root.IsMap() && root.size() == 1 && root["rules"] && root["rules"].IsSequence();
    if (!is_list) return file_error(path, root.Mark(), "is not one list named rules");
    std::vector<HeapRule> rules;
    for (const YAML::Node& node : root["rules"]) {
      ASSIGN_OR_RETURN(HeapRule rule, rule_of_node(path, node));
      rules.push_back(std::move(rule));
    }
    return rules;
  } catch (const YAML::BadFile&) {
    return file_error(path, YAML::Mark::null_mark(), "cannot be read; check path and permissions");
  } catch (const YAML::Exception& error) {
    return file_error(path, error.mark, error.msg);
  }
}

absl::StatusOr<pb::ListSitesResponse> read_baseline(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  pb::ListSitesResponse sites;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!in.is_open() || !google::protobuf::util::JsonStringToMessage(text, &sites, options).ok() ||
      !sites.has_total()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--baseline ", path, ": ",
                     in.is_open() ? "is not a file of memprofctl run --out FILE.json"
                                  : "cannot be read; check path and permissions"));
  }
  return sites;
}

HeapRule baseline_rule(RuleKind kind, const pb::Estimate& before, double tolerance) {
  return {.kind = kind,
          .limit_bytes = before.bytes() * (1 + tolerance),
          .limit_stderr_bytes = before.bytes_stderr() * (1 + tolerance),
          .from_baseline = true};
}

pb::ListSitesRequest request_of(const HeapRule& rule, int pid) {
  pb::ListSitesRequest request;
  request.set_pid(pid);
  request.set_limit(1);
  request.set_order(rule.kind == RuleKind::kAllocated ? pb::MEASURE_ALLOCATED : pb::MEASURE_LIVE);
  request.mutable_range()->set_until_peak(rule.kind == RuleKind::kPeak);
  if (!rule.pattern.empty()) request.mutable_filter()->add_require(rule.pattern);
  return request;
}

absl::StatusOr<RuleResult> check_rule(Questions& questions, int pid, double rate,
                                      const HeapRule& rule) {
  ASSIGN_OR_RETURN(const pb::ListSitesResponse sites, questions.list_sites(request_of(rule, pid)));
  RuleResult result{.rule = rule};
  result.measured =
      rule.kind == RuleKind::kAllocated ? sites.total().allocated() : sites.total().live();
  if (rule.from_baseline) {
    pb::Estimate more = result.measured;
    more.set_bytes(result.measured.bytes() - rule.limit_bytes);
    more.set_bytes_stderr(std::hypot(result.measured.bytes_stderr(), rule.limit_stderr_bytes));
    result.at_least_bytes = more.bytes() - kSure * more.bytes_stderr();
    result.broken = result.at_least_bytes > 0;
  } else {
    result.at_least_bytes = sure_lower_bytes(result.measured, rate);
    result.broken = result.at_least_bytes > rule.limit_bytes;
  }
  if (!sites.sites().empty()) {
    result.largest_site = site_text(sites.sites(0), pb::GROUP_BY_UNSPECIFIED);
  }
  return result;
}

std::string measured_words(const RuleResult& result) {
  std::string out = estimate_text(result.measured);
  if (result.rule.from_baseline) {
    absl::StrAppend(&out, ", baseline and tolerance ", format_bytes(result.rule.limit_bytes));
  }
  if (!result.broken) return out;
  absl::StrAppend(
      &out, result.rule.from_baseline ? ", certainly more by at least " : ", certainly at least ",
      format_bytes(result.at_least_bytes));
  if (!result.largest_site.empty()) absl::StrAppend(&out, "; most of it: ", result.largest_site);
  return out;
}

std::string xml(std::string_view text) {
  return absl::StrReplaceAll(absl::string_view(text.data(), text.size()),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace

double sure_lower_bytes(const pb::Estimate& estimate, double rate) {
  return lower_limit_of(estimate.bytes(), estimate.bytes_stderr(),
                        grain_words(rate) * kBytesPerWord, kSure);
}

absl::StatusOr<std::vector<HeapRule>> parse_rules(const RuleOptions& options) {
  std::vector<HeapRule> rules;
  for (const KindRow& row : kKinds) {
    for (const std::string& text : options.*row.texts) {
      ASSIGN_OR_RETURN(HeapRule rule, parse_rule(row.kind, text));
      rules.push_back(std::move(rule));
    }
  }
  if (!options.file.empty()) {
    ASSIGN_OR_RETURN(std::vector<HeapRule> more, read_rules(options.file));
    std::ranges::move(more, std::back_inserter(rules));
  }
  if (!options.baseline.empty()) {
    ASSIGN_OR_RETURN(const double tolerance, parse_percent(options.tolerance));
    ASSIGN_OR_RETURN(const pb::ListSitesResponse before, read_baseline(options.baseline));
    rules.push_back(baseline_rule(RuleKind::kLive, before.total().live(), tolerance));
    rules.push_back(baseline_rule(RuleKind::kAllocated, before.total().allocated(), tolerance));
  }
  if (!rules.empty()) return rules;
  return absl::InvalidArgumentError(
      "check: no rule is given: use --max-live, --max-peak, --max-allocated, --rules or "
      "--baseline");
}

absl::StatusOr<std::vector<RuleResult>> check_rules(Questions& questions, int pid, double rate,
                                                    const std::vector<HeapRule>& rules) {
  std::vector<RuleResult> results;
  for (const HeapRule& rule : rules) {
    ASSIGN_OR_RETURN(RuleResult result, check_rule(questions, pid, rate, rule));
    results.push_back(std::move(result));
  }
  return results;
}

std::string rule_text(const HeapRule& rule) {
  std::string out =
      absl::StrCat(row_of(rule.kind).words,
                   " <= ", rule.from_baseline ? "baseline" : format_bytes(rule.limit_bytes));
  if (!rule.pattern.empty()) absl::StrAppend(&out, " of ", rule.pattern);
  return out;
}

std::string results_text(const std::vector<RuleResult>& results) {
  std::string out;
  for (const RuleResult& result : results) {
    absl::StrAppend(&out, result.broken ? "BROKEN  " : "ok      ", rule_text(result.rule), ": ",
                    measured_words(result), "\n");
  }
  return out;
}

std::string results_junit(const std::vector<RuleResult>& results, const std::string& program) {
  const auto broken = std::ranges::count(results, true, &RuleResult::broken);
  std::string out = absl::StrCat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"memprofctl check ",
      xml(program), "\" tests=\"", results.size(), "\" failures=\"", broken, "\">\n");
  for (const RuleResult& result : results) {
    absl::StrAppend(&out, "  <testcase classname=\"", xml(program), "\" name=\"",
                    xml(rule_text(result.rule)), "\"");
    const std::string words = xml(measured_words(result));
    if (result.broken) {
      absl::StrAppend(&out, ">\n    <failure message=\"", words, "\"/>\n  </testcase>\n");
    } else {
      absl::StrAppend(&out, ">\n    <system-out>", words, "</system-out>\n  </testcase>\n");
    }
  }
  return out + "</testsuite>\n";
}

std::string results_markdown(const std::vector<RuleResult>& results, const std::string& program) {
  std::string out =
      absl::StrCat("### Heap of `", program, "`\n\n| rule | measured | |\n|---|---|---|\n");
  for (const RuleResult& result : results) {
    const auto cell = [](const std::string& text) {
      return absl::StrReplaceAll(text, {{"|", "\\|"}});
    };
    absl::StrAppend(&out, "| ", cell(rule_text(result.rule)), " | ", cell(measured_words(result)),
                    " | ", result.broken ? "**broken**" : "ok", " |\n");
  }
  return out;
}

}  // namespace memprofd::ctl
