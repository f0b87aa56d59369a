// SPDX-License-Identifier: Apache-2.0
// memprofctl check: rules from its command line, and their outcomes as text and for CI systems
// (daemon/rules).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/rules/rule_check.h"
#include "daemon/snapshot/answers/assertion_check.h"

namespace memprofd::ctl {

// Options of the command line.
struct RuleOptions {
  // "64MiB", or "Cache\.=64MiB" for callstacks with a matching frame; durations of the last two.
  std::vector<std::string> max_live, max_peak, max_allocated, max_growth, max_lifetime, max_age;
  std::string file;              // YAML (rules/memory_rule.h); empty: none
  std::string baseline;          // a .json file of memprofctl run; empty: none
  std::string tolerance = "5%";  // above the baseline
  std::string junit, markdown;   // files to write; empty: none
};

// kInvalidArgument: a rule or file that makes no sense. No rule at all is none: see no_rule().
absl::StatusOr<std::vector<MemoryRule>> parse_rules(const RuleOptions& options);

// Why nothing can be checked: kInvalidArgument.
absl::Status no_rule();

// A rule, or an assertion of the program.
struct CheckResult {
  std::string name;  // "live at the end <= 64.0 MiB"
  RuleVerdict verdict = RuleVerdict::kUnknown;
  std::string text;  // "104 MiB ± 3"
};

CheckResult result_of(const RuleOutcome& outcome);
CheckResult result_of(const AssertionOutcome& outcome);

// Those of this program, each as it was at its end.
std::vector<CheckResult> check_rules(const ProfileSnapshot& snapshot,
                                     const std::vector<MemoryRule>& rules);

// One line for each rule: ok, BROKEN or UNKNOWN, and what was measured.
std::string results_text(const std::vector<CheckResult>& results);
std::string results_junit(const std::vector<CheckResult>& results, const std::string& program);
std::string results_markdown(const std::vector<CheckResult>& results, const std::string& program);

}  // namespace memprofd::ctl
