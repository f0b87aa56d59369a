// SPDX-License-Identifier: Apache-2.0
// Limits for the memory of programs, shared by CI (memprofctl check) and servers (memprofd
// --rules). A file of rules is YAML: a list "rules" of mappings. Each has one limit:
//
//   max-live: 64MiB        live bytes, now or at the end of the program
//   max-peak: 100MiB       live bytes at the peak
//   max-allocated: 10GiB   allocated bytes: all, or with per: 1m in any minute
//   max-growth: 0          growth of leaking sites; with per: 1h per hour
//   max-lifetime: 30s      99 % of the bytes live no longer
//   max-age: 10m           no live block is older
//
// and optionally
//
//   of: Cache\.            only callstacks that have a matching function or file (RE2)
//   module: Cache          only blocks that are allocated in this compilation unit
//   program: 'shop-*'      only programs of that name (glob)
//   name: sessions         name of the rule in metrics and the log
//   snapshot: true         a server takes a heap snapshot when the rule is broken
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace memprofd {

enum class RuleKind { kLive, kPeak, kAllocated, kGrowth, kLifetime, kAge };

struct MemoryRule {
  RuleKind kind = RuleKind::kLive;
  double limit = 0;  // in bytes; in seconds for kLifetime and kAge
  // The limit is an estimate from an earlier run, with its standard error and grain (estimate.h).
  bool from_baseline = false;
  double limit_stderr = 0, limit_grain = 0;
  std::string pattern = {};  // RE2: only callstacks with a matching frame count; empty: all
  std::string module = {};   // only blocks of this compilation unit; empty: all
  std::string program = {};  // glob of the program's name; empty: all
  double per_seconds = 0;    // for kAllocated and kGrowth; 0: the whole time
  std::string name = {};     // empty: rule_text()
  bool snapshot = false;
};

// A file with more rules is rejected, because each is checked repeatedly.
inline constexpr std::size_t kMaxRules = 200;

// True if a limit of this kind is a time.
bool is_time_limit(RuleKind kind);
// The key of a limit in a file: "max-live". The option of memprofctl check adds "--".
const char* rule_key(RuleKind kind);

// Parses a limit in the kind's unit. source: the text of the rule, for messages; form: the correct
// form, for messages. kInvalidArgument: an invalid pattern or limit.
absl::StatusOr<MemoryRule> make_rule(RuleKind kind, const std::string& pattern,
                                     const std::string& limit, const std::string& source,
                                     const char* form);
// kInvalidArgument with the file and the line. An empty list is valid.
absl::StatusOr<std::vector<MemoryRule>> read_rules(const std::string& path);

bool is_of_program(const MemoryRule& rule, const std::string& comm);

// "live at the end <= 64.0 MiB of Cache\."; if running: "live <= 64.0 MiB of Cache\.".
std::string rule_text(const MemoryRule& rule, bool running);

}  // namespace memprofd
