// SPDX-License-Identifier: Apache-2.0
// The endpoints of the HTTP port that are not the API's: /metrics, /-/healthy and
// /-/ready.
#pragma once

#include <functional>

#include "daemon/export/http/http_server.h"
#include "daemon/export/metrics/prometheus_exporter.h"

namespace memprofd {

// Asked from server threads.
struct Health {
  std::function<bool()> ready;    // else /-/ready answers 503
  std::function<bool()> healthy;  // else /-/healthy does: only a new start will help
};

// The arguments must outlive the server.
HttpRoutes make_routes(const PrometheusExporter& exporter, Health health);

}  // namespace memprofd
