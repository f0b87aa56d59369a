// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/heap_rules.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "daemon/ctl/output.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {
namespace {

namespace pb = ::memprof::v1;

struct OptionRow {
  RuleKind kind;
  std::vector<std::string> RuleOptions::*texts;
};
constexpr OptionRow kOptions[] = {
    {RuleKind::kLive, &RuleOptions::max_live},
    {RuleKind::kPeak, &RuleOptions::max_peak},
    {RuleKind::kAllocated, &RuleOptions::max_allocated},
    {RuleKind::kGrowth, &RuleOptions::max_growth},
    {RuleKind::kLifetime, &RuleOptions::max_lifetime},
    {RuleKind::kAge, &RuleOptions::max_age},
};

// The last = separates pattern and limit, because a pattern may contain others.
absl::StatusOr<MemoryRule> parse_rule(RuleKind kind, const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const bool has_pattern = equals != std::string::npos;
  return make_rule(kind, has_pattern ? text.substr(0, equals) : std::string(),
                   has_pattern ? text.substr(equals + 1) : text, text,
                   is_time_limit(kind) ? "; write DURATION, or PATTERN=DURATION"
                                       : "; write SIZE, or PATTERN=SIZE");
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

MemoryRule baseline_rule(RuleKind kind, const pb::Estimate& before, double tolerance) {
  // The limit of what has no sample is 3.0 grains (profiler.proto).
  const double grain = before.samples() == 0 ? before.bytes_upper() / 3
                       : before.bytes() > 0
                           ? before.bytes_stderr() * before.bytes_stderr() / before.bytes()
                           : 0;
  return {.kind = kind,
          .limit = before.bytes() * (1 + tolerance),
          .from_baseline = true,
          .limit_stderr = before.bytes_stderr() * (1 + tolerance),
          .limit_grain = grain * (1 + tolerance)};
}

// Indexed by RuleVerdict.
struct VerdictWords {
  const char* text;
  const char* markdown;
};
constexpr VerdictWords kVerdicts[] = {
    {"ok      ", "ok"}, {"BROKEN  ", "**broken**"}, {"UNKNOWN ", "**unknown**"}};
static_assert(static_cast<int>(RuleVerdict::kHolds) == 0 &&
              static_cast<int>(RuleVerdict::kBroken) == 1 &&
              static_cast<int>(RuleVerdict::kUnknown) == 2);

const VerdictWords& words_of(const CheckResult& result) {
  return kVerdicts[static_cast<int>(result.verdict)];
}

std::string xml(std::string_view text) {
  return absl::StrReplaceAll(absl::string_view(text.data(), text.size()),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace

absl::StatusOr<std::vector<MemoryRule>> parse_rules(const RuleOptions& options) {
  std::vector<MemoryRule> rules;
  for (const OptionRow& row : kOptions) {
    for (const std::string& text : options.*row.texts) {
      ASSIGN_OR_RETURN(MemoryRule rule, parse_rule(row.kind, text));
      rules.push_back(std::move(rule));
    }
  }
  if (!options.file.empty()) {
    ASSIGN_OR_RETURN(std::vector<MemoryRule> more, read_rules(options.file));
    std::ranges::move(more, std::back_inserter(rules));
  }
  if (!options.baseline.empty()) {
    ASSIGN_OR_RETURN(const double tolerance, parse_percent(options.tolerance));
    ASSIGN_OR_RETURN(const pb::ListSitesResponse before, read_baseline(options.baseline));
    rules.push_back(baseline_rule(RuleKind::kLive, before.total().live(), tolerance));
    rules.push_back(baseline_rule(RuleKind::kAllocated, before.total().allocated(), tolerance));
  }
  return rules;
}

absl::Status no_rule() {
  return absl::InvalidArgumentError(
      "check: no rule is given, and the program has no assertions (module Memprof_check): use "
      "--max-live, --max-peak, --max-allocated, --max-growth, --max-lifetime, --max-age, --rules "
      "or --baseline");
}

std::vector<CheckResult> check_rules(const ProfileSnapshot& snapshot,
                                     const std::vector<MemoryRule>& rules) {
  std::vector<CheckResult> results;
  for (const MemoryRule& rule : rules) {
    if (!is_of_program(rule, snapshot.info.comm)) continue;
    results.push_back(result_of(check_rule(snapshot, rule, {})));
  }
  return results;
}

std::string results_text(const std::vector<CheckResult>& results) {
  std::string out;
  for (const CheckResult& result : results) {
    absl::StrAppend(&out, words_of(result).text, result.name, ": ", result.text, "\n");
  }
  return out;
}

std::string results_junit(const std::vector<CheckResult>& results, const std::string& program) {
  const auto count = [&](RuleVerdict verdict) {
    return std::ranges::count(results, verdict, &CheckResult::verdict);
  };
  std::string out = absl::StrCat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"memprofctl check ",
      xml(program), "\" tests=\"", results.size(), "\" failures=\"", count(RuleVerdict::kBroken),
      "\" errors=\"", count(RuleVerdict::kUnknown), "\">\n");
  for (const CheckResult& result : results) {
    absl::StrAppend(&out, "  <testcase classname=\"", xml(program), "\" name=\"", xml(result.name),
                    "\"");
    const std::string words = xml(result.text);
    if (result.verdict == RuleVerdict::kHolds) {
      absl::StrAppend(&out, ">\n    <system-out>", words, "</system-out>\n  </testcase>\n");
    } else {
      const char* const element = result.verdict == RuleVerdict::kBroken ? "failure" : "error";
      absl::StrAppend(&out, ">\n    <", element, " message=\"", words, "\"/>\n  </testcase>\n");
    }
  }
  return out + "</testsuite>\n";
}

std::string results_markdown(const std::vector<CheckResult>& results, const std::string& program) {
  std::string out =
      absl::StrCat("### Heap of `", program, "`\n\n| rule | measured | |\n|---|---|---|\n");
  for (const CheckResult& result : results) {
    const auto cell = [](const std::string& text) {
      return absl::StrReplaceAll(text, {{"|", "\\|"}});
    };
    absl::StrAppend(&out, "| ", cell(result.name), " | ", cell(result.text), " | ",
                    words_of(result).markdown, " |\n");
  }
  return out;
}

namespace {

bool is_step_summary(const std::string& path) {
  const char* const summary = std::getenv("GITHUB_STEP_SUMMARY");
  std::error_code none;
  return summary != nullptr &&
         (path == summary || std::filesystem::equivalent(path, summary, none));
}

}  // namespace

absl::Status write_check_files(const RuleOptions& options, const std::vector<CheckResult>& results,
                               const std::string& program, bool is_last) {
  if (!options.junit.empty()) {
    RETURN_IF_ERROR(write_result(results_junit(results, program), options.junit));
  }
  if (options.markdown.empty()) return absl::OkStatus();
  const std::string text = results_markdown(results, program);
  if (is_step_summary(options.markdown)) {
    return append_result(is_last ? text : "", options.markdown);
  }
  return write_result(text, options.markdown);
}

std::string rules_of_others_text(const std::vector<MemoryRule>& rules, const std::string& comm) {
  std::vector<std::string> programs;
  std::size_t others = 0;
  for (const MemoryRule& rule : rules) {
    if (is_of_program(rule, comm)) continue;
    ++others;
    if (std::ranges::find(programs, rule.program) == programs.end()) {
      programs.push_back(rule.program);
    }
  }
  if (others == 0) return "";
  return absl::StrCat(others, others == 1 ? " rule is" : " rules are", " not for ", comm,
                      " but for: ", absl::StrJoin(programs, ", "));
}

}  // namespace memprofd::ctl
