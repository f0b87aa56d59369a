// SPDX-License-Identifier: Apache-2.0
// The questions of the gRPC API over HTTP.
//
//   /debug/pprof/heap, /debug/pprof/allocs   pprof; what `go tool pprof` fetches
//   /api/v1/targets, sites, diff, callers, leaks, history   JSON of the messages
//   /api/v1/profile                           any format
//   POST /api/v1/trace                        what happens from now on, as CTF file
//
// Parameters are fields of the request messages, see request_params.h. pprof:
// pid (none: all targets), seconds=N waits so long and answers what was allocated
// meanwhile, in use being what of that is still alive; all else as for profile.
// trace: fields of TraceOptions, and seconds=N, which the recording takes; see same_site.h.
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
