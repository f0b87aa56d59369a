// SPDX-License-Identifier: Apache-2.0
// Control of memprofd over HTTP, for the page:
//
//   POST /api/v1/attach, detach, rate    JSON of AttachRequest, DetachRequest,
//                                        SetRateRequest; answers the response's JSON
//
// A page of another site must not be able to use them through a visitor's browser:
//   - Content-Type application/json and the header X-Memprofd-Control: 1 are needed.
//     A browser sends neither to another origin without asking it first (CORS
//     preflight, an OPTIONS request), which memprofd refuses.
//   - Origin, where it is sent, must be the Host that was asked.
//   - Host must be an address or localhost when there are no passwords: a name may be
//     the other site's, pointing at us (DNS rebinding). With passwords a browser has
//     none for the other site's name.
#pragma once

#include "daemon/export/api/control_service.h"
#include "daemon/export/http/http_server.h"

namespace memprofd {

// Routes that refuse and say how control is allowed, unless allowed. control must
// outlive the routes.
void add_control_routes(ControlService& control, bool allowed, HttpRoutes& routes);

}  // namespace memprofd
