// SPDX-License-Identifier: Apache-2.0
// The page at / (dashboards/web, built into the program), and the files it loads. It
// asks the HTTP API for everything it shows and nothing of any other machine.
// /api/v1/server tells it, and whoever asks, what memprofd this is and what it may do.
#pragma once

#include "daemon/export/api/server_info.h"
#include "daemon/export/http/http_server.h"

namespace memprofd {

void add_web_page(const ServerFacts& facts, HttpRoutes& routes);

}  // namespace memprofd
