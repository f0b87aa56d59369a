// SPDX-License-Identifier: Apache-2.0
// Checks whether a program keeps its rules, for both memprofctl check and memprofd.
//
// A limit is broken only if the whole interval of the estimate lies above it. So chance breaks a
// limit that holds no more often than stated (RuleCheck::chance):
//
//   max-peak: 100MiB     measured 104 MiB ± 3: at least 95 MiB, holds
//                        measured 130 MiB ± 3: at least 121 MiB, broken
//
// An age is that of a block that was seen alive, and is certain. Growth is that of the suspects in
// the search for leaks (query/leaks.h), with this chance instead of its own, between ends of major
// collections, so that garbage does not count.
#pragma once

#include <string>
#include <string_view>

#include "daemon/history/snapshot.h"
#include "daemon/rules/memory_rule.h"
#include "daemon/snapshot/answers/assertion_check.h"
#include "daemon/util/estimate.h"

namespace memprofd {

struct RuleCheck {
  // Probability that a limit that is just kept is reported as broken, for each check.
  double chance = 1e-3;
  // The program is still running: growth is that of the last hour, volume per interval that of the
  // last interval. Otherwise both cover the whole run, and the worst interval counts.
  bool running = false;
};

enum class RuleVerdict { kHolds, kBroken, kUnknown };

struct RuleOutcome {
  MemoryRule rule;
  RuleVerdict verdict = RuleVerdict::kUnknown;
  // In the unit of the limit. For kLifetime: the estimate, which has no error, or the time up to
  // which lifetimes are known.
  double measured = 0;
  double measured_stderr = 0;
  double at_most = 0;             // 95 % limit of an amount without a sample; 0: there are samples
  double at_least = 0;            // lower limit of measured or, with a baseline, of the excess
  std::string largest_site = {};  // largest contributor: "Cache.add  cache.ml:12"; empty: none
  std::string why_unknown = {};
};

RuleOutcome check_rule(const ProfileSnapshot& snapshot, const MemoryRule& rule,
                       const RuleCheck& check);

// "104 MiB ± 3"; for a broken rule "130 MiB ± 3, certainly at least 121 MiB; most of it: Cache.add
// cache.ml:12"; for an unknown one the reason.
std::string outcome_text(const RuleOutcome& outcome);

// The result of a rule, or of an assertion of the program.
struct CheckResult {
  std::string name;  // "live at the end <= 64.0 MiB"
  RuleVerdict verdict = RuleVerdict::kUnknown;
  std::string text;  // "104 MiB ± 3"
};

CheckResult result_of(const RuleOutcome& outcome);
CheckResult result_of(const AssertionOutcome& outcome);

// "ok", "broken" or "unknown", as in JSON, and back.
const char* verdict_name(RuleVerdict verdict);
RuleVerdict verdict_named(std::string_view name);

// The quantile of the normal distribution that is exceeded with that probability: 3.09 for 1e-3.
double quantile_of_chance(double chance);

}  // namespace memprofd
