// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/page_routes.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/export/clients/answer_turns.h"
#include "daemon/export/http/http_answers.h"
#include "web_assets.h"

namespace memprofd {
namespace {

HttpHandler file(const char* content_type, std::string_view text) {
  return [content_type, text](const HttpRequest&) {
    return HttpResponse{200, content_type, std::string(text)};
  };
}

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kPlainType[] = "text/plain; charset=utf-8";

}  // namespace

void add_web_page(const ServerFacts& facts, HttpRoutes& routes) {
  using namespace web_assets;
  routes["/"] = file("text/html; charset=utf-8", kPage);
  routes["/page.js"] = file("text/javascript; charset=utf-8", kScript);
  routes["/page.css"] = file("text/css; charset=utf-8", kStyle);
  routes["/api/v1/server"] = [facts](const HttpRequest& http) {
    auto info = server_info(facts);
    info.set_control(info.control() && http.may_control);
    return http_json(info);
  };
}

// ---------------------------------------------------------- metrics and health

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
