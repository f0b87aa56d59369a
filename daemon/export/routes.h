// The endpoints of the HTTP port: /metrics, /-/healthy, /-/ready, the page at /
// and /api/v1/server, what the page may do.
#pragma once

#include <functional>
#include <string>

#include "daemon/export/http_server.h"
#include "daemon/export/prometheus_text.h"

namespace memprofd {

// What the routes refer to must outlive the server. ready() says whether
// /-/ready answers 200 (else 503); it is called from server threads.
HttpRoutes make_routes(const PrometheusExporter& exporter, const std::string& version,
                       std::function<bool()> ready);

}  // namespace memprofd
