// SPDX-License-Identifier: Apache-2.0
// The questions of the gRPC API over HTTP.
//
//   /debug/pprof/heap, allocs, delta_heap     pprof; what `go tool pprof` and scrapers fetch
//   /api/v1/targets, sites, diff, callers, leaks, history   JSON of the messages
//   /api/v1/profile                           any format
//   POST /api/v1/trace                        events from now on, as a CTF file
//
// Parameters are fields of the request messages, see request_params.h. pprof: pid, and the labels
// of memprofd_target_info, select targets (none: all). seconds=N waits for N seconds and returns
// what was allocated meanwhile; in use is the live part of that, for delta_heap all live memory.
// The rest is as for profile. Profiles stay within kReceiverLimits. trace: fields of TraceOptions,
// and seconds=N, which the recording takes; see same_site.h.
#pragma once

#include "daemon/export/api/query_service.h"
#include "daemon/export/api/trace_service.h"
#include "daemon/export/http/http_server.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// All must outlive the routes. Waiting requests end when stop is raised, recordings
// with the TraceService.
void add_api_routes(QueryService& queries, TraceService& traces, StopSignal& stop,
                    HttpRoutes& routes);

}  // namespace memprofd
