// SPDX-License-Identifier: Apache-2.0
// Calls of functions, for people.
#pragma once

#include <string>

#include "daemon/ctl/render/render_table.h"
#include "memprof/v1/calls.pb.h"

namespace memprofd::ctl {

// "3.0 s, 1,234 calls of 3 functions", a table of the most frequent ones, and the calls that could
// not be counted.
std::string render_calls(const ::memprof::v1::TraceCallsResponse& calls, const Style& style);

}  // namespace memprofd::ctl
