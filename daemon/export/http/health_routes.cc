// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/health_routes.h"

#include <memory>
#include <utility>

#include "daemon/export/clients/answer_turns.h"
#include "daemon/export/http/http_answers.h"

namespace memprofd {
namespace {

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kPlainType[] = "text/plain; charset=utf-8";

}  // namespace

HttpRoutes make_routes(const PrometheusExporter& exporter, Health health) {
  HttpRoutes routes;
  // Scrapes do not wait for other queries.
  const auto turns = std::make_shared<AnswerTurns>(AnswerLimits{.at_once = 2});
  routes["/metrics"] = [&exporter, turns](const HttpRequest&) {
    return in_turn(*turns, [&] { return HttpResponse{200, kMetricsType, exporter.text()}; });
  };
  routes["/-/healthy"] = [healthy = std::move(health.healthy)](const HttpRequest&) {
    if (healthy()) return HttpResponse{200, kPlainType, "memprofd is healthy.\n"};
    return HttpResponse{503, kPlainType, "memprofd does not respond; see its log.\n"};
  };
  routes["/-/ready"] = [ready = std::move(health.ready)](const HttpRequest&) {
    if (ready()) return HttpResponse{200, kPlainType, "memprofd is ready.\n"};
    return HttpResponse{503, kPlainType, "memprofd is starting or stopping.\n"};
  };
  return routes;
}

}  // namespace memprofd
