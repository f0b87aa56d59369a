// SPDX-License-Identifier: Apache-2.0
// Module values and published values, for the page:
//
//   GET /api/v1/value_history     JSON of GetValueHistoryResponse: numbers over time, phases
//   POST /api/v1/value_lines      the same with lines of the log
//   POST /api/v1/values           JSON of ListValuesRequest; answers the response's JSON
//   POST /api/v1/resume           likewise, of ResumeRequest
//   POST /api/v1/adjust           of AdjustRequest
//   POST /api/v1/keep_values      of KeepValuesRequest
//
// Parameters of the first are fields of GetValueHistoryRequest (request_params.h). The others are
// for who may control programs, and commands (commands.h).
#pragma once

#include "daemon/export/api/values_service.h"
#include "daemon/export/http/http_server.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// Both must outlive the routes; stop ends what takes its time. Commands are refused unless allowed.
void add_value_routes(ValuesService& values, StopSignal& stop, bool allowed, HttpRoutes& routes);

}  // namespace memprofd
