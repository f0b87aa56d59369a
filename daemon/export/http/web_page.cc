// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/web_page.h"

#include <string>
#include <string_view>

#include "daemon/export/http/http_answers.h"
#include "web_assets.h"

namespace memprofd {
namespace {

HttpHandler file(const char* content_type, std::string_view text) {
  return [content_type, text](const HttpRequest&) {
    return HttpResponse{200, content_type, std::string(text)};
  };
}

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

}  // namespace memprofd
