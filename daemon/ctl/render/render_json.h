// SPDX-License-Identifier: Apache-2.0
// Answers as JSON. Scripts rely on the names; fields may be added.
//
//   targets  {"targets": [{pid, comm, exe, runtime_version, mode, state, sampling_rate,
//             dropped_events, ...}]}
//   sites    {"sites": [{function, file, line, samples, allocated_bytes, allocated_bytes_stderr,
//             promoted_bytes, live_bytes, live_bytes_stderr,
//             lifetime_seconds: {p50, p50_lower, p50_upper, p90..., watched, alive_ratio, samples},
//             callstack: [{function, file, line}], ...}], "target": {...}}
//   top      the same as sites, in one line; each site has a "history" (null: not known), whose
//            values belong to "history": {"measure", "end_unix_ns": [...], "step_seconds": [...]}
//
// A quantile of lifetimes that is not reached is null: it is longer than lifetime_seconds.watched;
// so is an upper limit that there is not. samples are those that died.
#pragma once

#include <string>

#include "daemon/ctl/top/top_question.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

// All end in a newline.
std::string targets_json(const pb::ListTargetsResponse& response);
std::string target_json(const pb::Target& target);  // {"target": {...}}
std::string sites_json(const pb::ListSitesResponse& response);
std::string top_json(const TopAnswer& answer);
std::string findings_json(const pb::DiagnoseResponse& response);

}  // namespace memprofd::ctl
