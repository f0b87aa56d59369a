// SPDX-License-Identifier: Apache-2.0
// Limits for the heap of a program, checked after a run.
//
// A limit is broken only if the interval of the estimate lies above it, so chance alone breaks a
// limit that holds in at most one of a thousand runs:
//
//   --max-peak 100MiB     measured 104 MiB ± 3: from 95 MiB on, holds
//                         measured 130 MiB ± 3: from 121 MiB on, broken
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/ctl/questions.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

enum class RuleKind { kLive, kPeak, kAllocated };

struct HeapRule {
  RuleKind kind = RuleKind::kLive;
  std::string pattern;  // RE2: only callstacks with a matching frame count; empty: all
  double limit_bytes = 0;
  // For a rule that compares with an earlier run; 0: the limit is exact.
  double limit_stderr_bytes = 0;
  bool from_baseline = false;
};

// Limits from the command line.
struct RuleOptions {
  // "64MiB", or "Cache\.=64MiB" for callstacks with a matching frame.
  std::vector<std::string> max_live, max_peak, max_allocated;
  // A YAML file: a list "rules" of mappings, each with one limit and, if wanted, a pattern:
  //   rules:
  //     - max-peak: 100MiB
  //     - max-live: 10MiB
  //       of: Cache\.
  std::string file;              // empty: none
  std::string baseline;          // a .json file of memprofctl run; empty: none
  std::string tolerance = "5%";  // above the baseline
  std::string junit, markdown;   // files to write; empty: none
};

struct RuleResult {
  HeapRule rule;
  pb::Estimate measured;
  double at_least_bytes = 0;  // the lower limit of measured or, with a baseline, of what exceeds it
  bool broken = false;
  std::string largest_site;  // of the measured amount: "Cache.add  cache.ml:12"; empty: none
};

// The lower limit of an estimate at the stated probability, one in a thousand. rate: samples per
// word.
double sure_lower_bytes(const pb::Estimate& estimate, double rate);

// kInvalidArgument: a rule or file that makes no sense, or no rule at all.
absl::StatusOr<std::vector<HeapRule>> parse_rules(const RuleOptions& options);
absl::StatusOr<std::vector<RuleResult>> check_rules(Questions& questions, int pid, double rate,
                                                    const std::vector<HeapRule>& rules);

// "peak <= 64.0 MiB of Cache\."
std::string rule_text(const HeapRule& rule);
// One line for each rule: the amount, ok or broken.
std::string results_text(const std::vector<RuleResult>& results);
std::string results_junit(const std::vector<RuleResult>& results, const std::string& program);
std::string results_markdown(const std::vector<RuleResult>& results, const std::string& program);

}  // namespace memprofd::ctl
