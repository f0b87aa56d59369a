// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/heap_rules.h"

#include <google/protobuf/util/json_util.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

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

const char* word_of(RuleKind kind) {
  switch (kind) {
    case RuleKind::kLive:
      return "live at the end";
    case RuleKind::kPeak:
      return "live at the peak";
    case RuleKind::kAllocated:
      return "allocated";
  }
  return "";
}

// The last = parts pattern and size: a pattern may have some of its own.
absl::StatusOr<HeapRule> parse_rule(RuleKind kind, const std::string& text) {
  HeapRule rule{.kind = kind};
  const std::size_t equals = text.rfind('=');
  if (equals != std::string::npos) rule.pattern = text.substr(0, equals);
  const std::string size = equals == std::string::npos ? text : text.substr(equals + 1);
  if (!rule.pattern.empty()) {
    const RE2 pattern(rule.pattern, RE2::Quiet);
    if (!pattern.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rule ", text, ": bad pattern: ", pattern.error()));
    }
  }
  if (size != "0") {
    const absl::StatusOr<std::uint64_t> bytes = parse_size(size);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("rule ", text, ": ", bytes.status().message(),
                                                     "; write SIZE, or PATTERN=SIZE"));
    }
    rule.limit_bytes = static_cast<double>(*bytes);
  }
  return rule;
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
  const auto add = [&rules](RuleKind kind, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      ASSIGN_OR_RETURN(HeapRule rule, parse_rule(kind, text));
      rules.push_back(std::move(rule));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add(RuleKind::kLive, options.max_live));
  RETURN_IF_ERROR(add(RuleKind::kPeak, options.max_peak));
  RETURN_IF_ERROR(add(RuleKind::kAllocated, options.max_allocated));
  if (!options.baseline.empty()) {
    ASSIGN_OR_RETURN(const double tolerance, parse_percent(options.tolerance));
    ASSIGN_OR_RETURN(const pb::ListSitesResponse before, read_baseline(options.baseline));
    rules.push_back(baseline_rule(RuleKind::kLive, before.total().live(), tolerance));
    rules.push_back(baseline_rule(RuleKind::kAllocated, before.total().allocated(), tolerance));
  }
  if (!rules.empty()) return rules;
  return absl::InvalidArgumentError(
      "check: no rule is given: use --max-live, --max-peak, --max-allocated or --baseline");
}

absl::StatusOr<std::vector<RuleResult>> check_rules(Questions& questions, int pid, double rate,
                                                    const std::vector<HeapRule>& rules) {
  std::vector<RuleResult> results;
  for (const HeapRule& rule : rules) {
    ASSIGN_OR_RETURN(const pb::ListSitesResponse sites,
                     questions.list_sites(request_of(rule, pid)));
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
    results.push_back(std::move(result));
  }
  return results;
}

std::string rule_text(const HeapRule& rule) {
  std::string out = absl::StrCat(
      word_of(rule.kind), " <= ", rule.from_baseline ? "baseline" : format_bytes(rule.limit_bytes));
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
