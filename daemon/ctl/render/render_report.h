// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

// The full report of one target: identity and sampling, totals, and its sites in the requested
// order, each with lifetimes and callstack.
std::string report_text(const ::memprof::v1::ListSitesResponse& response,
                        ::memprof::v1::Measure order, ::memprof::v1::GroupBy group_by);

}  // namespace memprofd::ctl
