// SPDX-License-Identifier: Apache-2.0
// Control of memprofd over HTTP, for the page:
//
//   POST /api/v1/attach, detach, rate    JSON of AttachRequest, DetachRequest,
//                                        SetRateRequest; answers the response's JSON
//   POST /api/v1/snapshot                JSON of TakeSnapshotRequest; answers the file
//   POST /api/v1/why                     JSON of AskWhyRequest; answers the JSON of memprofctl why
//   POST /api/v1/keep_heap, compare_heaps, find_waste, find_garbage    as of gRPC's Heaps
//   POST /api/v1/rss                     as of gRPC's Memory
//
// and, questions for all, GET /api/v1/heaps and /api/v1/censuses: which snapshots are kept, and
// what they had in them.
//
// Pages of other sites may not use them (same_site.h), and they need a Content-Type of
// application/json. Each is logged (audit.h).
#pragma once

#include "daemon/export/api/control_service.h"
#include "daemon/export/api/inner_heap.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/heaps/kept_heaps.h"
#include "daemon/export/http/http_server.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// Services that the routes call; all must outlive them. stop ends calls that take long.
struct ControlParts {
  ControlService& control;
  QueryService& queries;
  InnerHeaps& heaps;
  KeptHeaps& kept;
  ProfilerService& service;
  StopSignal& stop;
};

// Adds the routes; unless allowed, they refuse and explain how to allow control.
void add_control_routes(const ControlParts& parts, bool allowed, HttpRoutes& routes);

}  // namespace memprofd
