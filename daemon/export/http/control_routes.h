// SPDX-License-Identifier: Apache-2.0
// Control of memprofd over HTTP, for the page:
//
//   POST /api/v1/attach, detach, rate    JSON of AttachRequest, DetachRequest,
//                                        SetRateRequest; answers the response's JSON
//   POST /api/v1/snapshot                JSON of TakeSnapshotRequest; answers the file
//   POST /api/v1/why                     JSON of AskWhyRequest; answers the JSON of memprofctl why
//
// They are for no page of another site (same_site.h), and have a Content-Type of
// application/json. Each leaves a line in the log (audit.h).
#pragma once

#include "daemon/export/api/control_service.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/http/http_server.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// Routes that refuse and say how control is allowed, unless allowed. The services and stop, which
// ends what takes its time, must outlive the routes.
void add_control_routes(ControlService& control, QueryService& queries, StopSignal& stop,
                        bool allowed, HttpRoutes& routes);

}  // namespace memprofd
