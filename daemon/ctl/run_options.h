// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/heap_rules.h"

namespace memprofd::ctl {

// Default rate, in samples per word.
inline constexpr double kRunRate = 1e-4;

// Handling of the program's children.
inline constexpr char kSumChildren[] = "sum", kEachChild[] = "each", kNoChildren[] = "no";

// Options of run and check.
struct RunOptions {
  std::vector<std::string> program;  // with its arguments
  std::vector<std::string> outs;     // output files; their extensions select the formats
  int trace_version = 0;             // of .ctf files; RecorderOptions::version
  std::string agent;                 // path; empty: the agent beside memprofctl
  bool quiet = false;
  bool live = false;                    // show live memory while it runs
  std::string children = kSumChildren;  // or kEachChild, kNoChildren
  std::optional<RuleOptions> rules;     // check
  std::optional<std::string> duration;  // --for, of a process that runs already
};

// Starts a program and profiles it to its end, or profiles a running process, without memprofd.
absl::Status run_run(const Options& options, const RunOptions& own);

}  // namespace memprofd::ctl
