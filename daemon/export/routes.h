// The endpoints of the HTTP port: /metrics, /-/healthy, /-/ready and a landing
// page.
#pragma once

#include <functional>
#include <string>

#include "daemon/export/http_server.h"
#include "daemon/export/prometheus_text.h"
#include "daemon/export/service.h"

namespace memprofd {

// What the routes refer to must outlive the server. ready() says whether
// /-/ready answers 200 (else 503); it is called from server threads.
HttpRoutes make_routes(ProfilerService& service, const PrometheusExporter& exporter,
                       std::string version, std::function<bool()> ready);

// The landing page: links and a table of targets, no script.
std::string landing_page(const std::vector<TargetSnapshotPtr>& targets, const std::string& version);

}  // namespace memprofd
