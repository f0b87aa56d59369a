// SPDX-License-Identifier: Apache-2.0
// The filter of `top` as a line to edit: the options of the command line
// ("--require Server --min-size 1KiB"), and a pattern by itself for --match.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

// Words end at spaces; quotes, single or double, keep spaces together. Patterns are compiled, so
// that errors are reported before the daemon is asked.
absl::StatusOr<pb::Filter> parse_filter(std::string_view line);
// A line from which parse_filter() makes the same filter; without lifetimes.
std::string filter_line(const pb::Filter& filter);

}  // namespace memprofd::ctl
