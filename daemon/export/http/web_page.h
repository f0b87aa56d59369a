// SPDX-License-Identifier: Apache-2.0
// The page at / (dashboards/web, built into the program), and the files it loads. It requests
// everything from the HTTP API and nothing from any other machine. /api/v1/server reports version
// and features of this memprofd to every client.
#pragma once

#include "daemon/export/api/server_info.h"
#include "daemon/export/http/http_server.h"

namespace memprofd {

void add_web_page(const ServerFacts& facts, HttpRoutes& routes);

}  // namespace memprofd
