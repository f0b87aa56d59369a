// SPDX-License-Identifier: Apache-2.0
// Control of memprofd over HTTP, for the page:
//
//   POST /api/v1/attach, detach, rate    JSON of AttachRequest, DetachRequest,
//                                        SetRateRequest; answers the response's JSON
//   POST /api/v1/snapshot                JSON of TakeSnapshotRequest; answers the file
//   POST /api/v1/rss                     as of gRPC's Memory
//
// and the routes of heap_methods.h, some of which are questions for all.
//
// They are for no page of another site (same_site.h), and have a Content-Type of
// application/json. Each leaves a line in the log (audit.h).
#pragma once

#include "daemon/export/api/control_service.h"
#include "daemon/export/heaps/heap_service.h"
#include "daemon/export/heaps/kept_heaps.h"
#include "daemon/export/http/http_server.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// What the routes ask; all must outlive them. stop ends what takes its time.
struct ControlParts {
  ControlService& control;
  HeapService& taken;
  KeptHeaps& kept;
  ProfilerService& service;
  StopSignal& stop;
};

// Routes that refuse and say how control is allowed, unless allowed.
void add_control_routes(const ControlParts& parts, bool allowed, HttpRoutes& routes);

}  // namespace memprofd
