// SPDX-License-Identifier: Apache-2.0
// The page at / (dashboards/web, built into the program), and the files it loads. It
// asks the HTTP API for everything it shows and nothing of any other machine.
// /api/v1/server tells it the version, and what it may do.
#pragma once

#include <string>

#include "daemon/export/http/http_server.h"

namespace memprofd {

// control_allowed: see control_routes.h.
void add_web_page(const std::string& version, bool control_allowed, HttpRoutes& routes);

}  // namespace memprofd
