// SPDX-License-Identifier: Apache-2.0
// memprofctl check: rules from its command line, and their results as text and for CI systems
// (daemon/rules).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/rules/rule_check.h"

namespace memprofd::ctl {

// Options of the command line.
struct RuleOptions {
  // "64MiB", or "Cache\.=64MiB" for callstacks with a matching frame. The last two take durations
  // instead.
  std::vector<std::string> max_live, max_peak, max_allocated, max_growth, max_lifetime, max_age;
  std::string file;              // YAML (rules/memory_rule.h); empty: none
  std::string baseline;          // a .json file of memprofctl run; empty: none
  std::string tolerance = "5%";  // above the baseline
  std::string junit, markdown;   // files to write; empty: none
};

// kInvalidArgument: a rule or file is invalid. There may be no rule at all.
absl::StatusOr<std::vector<MemoryRule>> parse_rules(const RuleOptions& options);

// The error of a check without any rule or assertion: kInvalidArgument.
absl::Status no_rule();

// Checks the rules of this program against its state at its end.
std::vector<CheckResult> check_rules(const ProfileSnapshot& snapshot,
                                     const std::vector<MemoryRule>& rules);

// One line for each result: ok, BROKEN or UNKNOWN, and the measured amount.
std::string results_text(const std::vector<CheckResult>& results);
std::string results_junit(const std::vector<CheckResult>& results, const std::string& program);
std::string results_markdown(const std::vector<CheckResult>& results, const std::string& program);

// Writes the options' files. Call it before the program runs, with the result that the check did
// not come to its end, and at the end: so a file that cannot be written is noticed at once, and one
// of an earlier check never remains. The file that the variable GITHUB_STEP_SUMMARY names collects
// the summaries of several commands, so only the last results are appended to it.
absl::Status write_check_files(const RuleOptions& options, const std::vector<CheckResult>& results,
                               const std::string& program, bool is_last);

// Names the programs of the rules that are not for this program, in one line; empty: there is none.
std::string rules_of_others_text(const std::vector<MemoryRule>& rules, const std::string& comm);

}  // namespace memprofd::ctl
