// SPDX-License-Identifier: Apache-2.0
// memprofctl check: rules from its command line, and their outcomes as text and for CI systems
// (daemon/rules).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/rules/rule_check.h"

namespace memprofd::ctl {

// Options of the command line.
struct RuleOptions {
  // "64MiB", or "Cache\.=64MiB" for callstacks with a matching frame. The last two have durations
  // instead.
  std::vector<std::string> max_live, max_peak, max_allocated, max_growth, max_lifetime, max_age;
  std::string file;              // YAML (rules/memory_rule.h); empty: none
  std::string baseline;          // a .json file of memprofctl run; empty: none
  std::string tolerance = "5%";  // above the baseline
  std::string junit, markdown;   // files to write; empty: none
};

// kInvalidArgument: a rule or file is invalid, or there is no rule at all.
absl::StatusOr<std::vector<MemoryRule>> parse_rules(const RuleOptions& options);

// Checks the rules of this program against its state at its end.
std::vector<RuleOutcome> check_rules(const ProfileSnapshot& snapshot,
                                     const std::vector<MemoryRule>& rules);

// One line for each rule: ok, BROKEN or UNKNOWN, and the measured amount.
std::string results_text(const std::vector<RuleOutcome>& results);
std::string results_junit(const std::vector<RuleOutcome>& results, const std::string& program);
std::string results_markdown(const std::vector<RuleOutcome>& results, const std::string& program);

}  // namespace memprofd::ctl
