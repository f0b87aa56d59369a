// SPDX-License-Identifier: Apache-2.0
// The endpoints of the HTTP port that are not the API's: /metrics, /-/healthy and
// /-/ready.
#pragma once

#include <functional>

#include "daemon/export/http/http_server.h"
#include "daemon/export/metrics/prometheus_exporter.h"

namespace memprofd {

// What the routes refer to must outlive the server. ready() says whether
// /-/ready answers 200 (else 503); it is called from server threads.
HttpRoutes make_routes(const PrometheusExporter& exporter, std::function<bool()> ready);

}  // namespace memprofd
