// SPDX-License-Identifier: Apache-2.0
// Control of memprofd over HTTP, for the page:
//
//   POST /api/v1/attach, detach, rate    JSON of AttachRequest, DetachRequest,
//                                        SetRateRequest; answers the response's JSON
//   POST /api/v1/snapshot                JSON of TakeSnapshotRequest; answers the file
//
// and the routes of Values, Memory (api_methods.h) and Heaps (heap_methods.h), some of which are
// questions for all.
//
// Pages of other sites may not use them (same_site.h), and they need a Content-Type of
// application/json. Each is logged (audit.h).
#pragma once

#include "daemon/export/api/control_service.h"
#include "daemon/export/api/values_service.h"
#include "daemon/export/heaps/heap_service.h"
#include "daemon/export/heaps/kept_heaps.h"
#include "daemon/export/http/http_server.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// Services that the routes call; all must outlive them. stop ends calls that take long.
struct ControlParts {
  ControlService& control;
  HeapService& taken;
  KeptHeaps& kept;
  ValuesService& values;
  ProfilerService& service;
  StopSignal& stop;
};

// Adds the routes; unless allowed, they refuse and explain how to allow control.
void add_control_routes(const ControlParts& parts, bool allowed, HttpRoutes& routes);

}  // namespace memprofd
