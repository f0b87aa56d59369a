// SPDX-License-Identifier: Apache-2.0
// The paths of the HTTP port that are not the API's: the page, /metrics, /-/healthy and /-/ready.
#pragma once

#include <functional>

#include "daemon/export/api/server_info.h"
#include "daemon/export/http/http_server.h"
#include "daemon/export/metrics/prometheus_exporter.h"

namespace memprofd {

// Asked from server threads.
struct Health {
  std::function<bool()> ready;    // else /-/ready answers 503
  std::function<bool()> healthy;  // else /-/healthy does: only a new start will help
};

// /metrics, /-/healthy and /-/ready. The arguments must outlive the server.
HttpRoutes make_routes(const PrometheusExporter& exporter, Health health);

// Adds the page at / (dashboards/web, built into the program), and the files it loads. It requests
// everything from the HTTP API and nothing from any other machine. /api/v1/server reports version
// and features of this memprofd to every client.
void add_web_page(const ServerFacts& facts, HttpRoutes& routes);

}  // namespace memprofd
