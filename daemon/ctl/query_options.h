// SPDX-License-Identifier: Apache-2.0
// Options that several commands share: those that select the blocks of a question, and others.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/ctl/selection_spec.h"

namespace CLI {
class App;  // its header takes seconds to compile
class Option;
}  // namespace CLI

namespace memprofd::ctl {

// Options as given on the command line; later code checks and converts them.
struct QueryOptions {
  std::string target;  // TARGET[@RANGE]
  std::string range;
  std::string last;  // duration
  bool until_peak = false;
  std::string min_size, max_size;          // sizes
  std::string min_lifetime, max_lifetime;  // durations
  pb::Filter filter;                       // everything that needs no parsing
  pb::GroupBy group_by = pb::GROUP_BY_SITE;
  pb::Measure order = pb::MEASURE_LIVE;
  int limit = -1;  // 0: all; -1: the command's default
};

// TARGET and --pid.
void add_target(CLI::App& app, QueryOptions& options);
// The same for commands that take no trace file and no range.
void add_running_target(CLI::App& app, QueryOptions& options);
// --range, --last, --peak.
void add_range(CLI::App& app, QueryOptions& options);
// --frames alone; add_filter() includes it.
void add_frames(CLI::App& app, QueryOptions& options);
// --match, --require, ...; with_lifetimes: also those about what became of blocks.
void add_filter(CLI::App& app, QueryOptions& options, bool with_lifetimes);
// --group-by.
void add_grouping(CLI::App& app, QueryOptions& options);
// --sort and --limit.
void add_order(CLI::App& app, QueryOptions& options);

// names: "--pid" for commands whose first word is something else, or "pid,--pid".
void add_pid(CLI::App& app, int& pid, const char* names = "--pid");

// A rate in either form, for rate_of(). names: those of the first form.
void add_sampling_rate(CLI::App& app, const char* names, std::string& rate, std::string& interval);

// --format-version, for RecorderOptions::version.
void add_trace_version(CLI::App& app, int& version);

// --out.
CLI::Option* add_out(CLI::App& app, std::string& file);

// --output: "table" and others; the first one is the default.
void add_format(CLI::App& app, std::string& format, const std::vector<std::string>& formats);

// Parses the options of add_filter(), and a pattern, from words that do not come from the command
// line.
absl::StatusOr<QueryOptions> parse_filter_words(std::vector<std::string> words);

// frames: used if the command line has no --frames. Output for people names sites by
// FRAMES_APPLICATION. Output for programs leaves it unspecified, so that it does not change.
absl::StatusOr<pb::Filter> filter_of(const QueryOptions& options, pb::Frames frames);
// Fills in the target, and the range of either place. now_ns: CLOCK_REALTIME.
absl::StatusOr<SelectionSpec> selection_of(const QueryOptions& options, std::int64_t now_ns);

}  // namespace memprofd::ctl
