// SPDX-License-Identifier: Apache-2.0
// Whether a program keeps its rules: the one answer of memprofctl check and of memprofd.
//
// A limit is broken only if the interval of the estimate lies above it, so chance alone breaks a
// limit that holds no more often than stated (RuleCheck::chance):
//
//   max-peak: 100MiB     measured 104 MiB ± 3: from 95 MiB on, holds
//                        measured 130 MiB ± 3: from 121 MiB on, broken
//
// An age is that of a block that was seen alive, and is certain. Growth is what the search for
// leaks names (query/leaks.h), with that chance instead of its own: between ends of major
// collections, so that garbage is no growth.
#pragma once

#include <string>

#include "daemon/history/snapshot.h"
#include "daemon/rules/memory_rule.h"
#include "daemon/util/estimate.h"

namespace memprofd {

struct RuleCheck {
  // How often a limit that is just kept may be reported as broken, each time that it is checked.
  double chance = 1e-3;
  // The program still runs: growth is that of the last hour, volume per interval that of the last
  // interval. Else both are those of the whole run, of whose intervals the worst counts.
  bool running = false;
};

enum class RuleVerdict { kHolds, kBroken, kUnknown };

struct RuleOutcome {
  MemoryRule rule;
  RuleVerdict verdict = RuleVerdict::kUnknown;
  // In the unit of the limit; of kLifetime the estimate, which has no error, or the time up to
  // which lifetimes are known.
  double measured = 0;
  double measured_stderr = 0;
  double at_least = 0;            // the lower limit of measured or, with a baseline, of the excess
  std::string largest_site = {};  // of what was measured: "Cache.add  cache.ml:12"; empty: none
  std::string why_unknown = {};
};

RuleOutcome check_rule(const ProfileSnapshot& snapshot, const MemoryRule& rule,
                       const RuleCheck& check);

// "104 MiB ± 3", of a broken rule "130 MiB ± 3, certainly at least 121 MiB; most of it:
// Cache.add  cache.ml:12", of an unknown one the reason.
std::string outcome_text(const RuleOutcome& outcome);

// The quantile of the normal distribution that is exceeded with that chance: 3.09 for 1e-3.
double quantile_of_chance(double chance);

}  // namespace memprofd
