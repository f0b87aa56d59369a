// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

// The full report of one target: what it is and how it is sampled, its totals,
// and its sites in the order they were asked for, each with lifetimes and
// callstack.
std::string report_text(const ::memprof::v1::ListSitesResponse& response,
                        ::memprof::v1::Measure order, ::memprof::v1::GroupBy group_by);

}  // namespace memprofd::ctl
