// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/control_routes.h"

#include <google/protobuf/util/json_util.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/util/net_address.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

constexpr char kOff[] =
    "control over HTTP is off: start memprofd with --web.enable-control, or use memprofctl";

std::string header(const HttpRequest& request, const std::string& lower_case_name) {
  const auto found = request.headers.find(lower_case_name);
  return found == request.headers.end() ? "" : found->second;
}

bool is_json(const std::string& content_type) {
  const std::string type = content_type.substr(0, content_type.find(';'));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(type), "application/json");
}

absl::Status check_same_site(const HttpRequest& request) {
  if (!is_json(header(request, "content-type"))) {
    return absl::InvalidArgumentError("Content-Type must be application/json");
  }
  if (header(request, "x-memprofd-control") != "1") {
    return absl::PermissionDeniedError(
        "the header \"X-Memprofd-Control: 1\" is missing; it keeps other sites from using this");
  }
  const std::string host = header(request, "host"), origin = header(request, "origin");
  if (!origin.empty() && !absl::EqualsIgnoreCase(origin, absl::StrCat("http://", host)) &&
      !absl::EqualsIgnoreCase(origin, absl::StrCat("https://", host))) {
    return absl::PermissionDeniedError(
        absl::StrCat("a page of ", origin, " may not control memprofd, only its own page may"));
  }
  if (!request.authenticated && !is_local_name(host)) {
    return absl::PermissionDeniedError(
        absl::StrCat("\"", host,
                     "\" may be a name that another site has made up: ask by address or as "
                     "localhost, or set passwords with --web.config.file"));
  }
  return absl::OkStatus();
}

template <typename Request>
absl::StatusOr<Request> parse(const std::string& body) {
  Request request;
  const auto status = google::protobuf::util::JsonStringToMessage(body, &request);
  if (status.ok()) return request;
  const std::string lines(status.message());  // the others show the place
  return absl::InvalidArgumentError(absl::StrCat("the body is no JSON of ",
                                                 Request::descriptor()->name(), ": ",
                                                 lines.substr(0, lines.find('\n'))));
}

template <typename Request, typename Response>
HttpHandler command(ControlService& control,
                    absl::StatusOr<Response> (ControlService::*run)(const Request&)) {
  return [&control, run](const HttpRequest& http) {
    if (absl::Status status = check_same_site(http); !status.ok()) return http_failure(status);
    const absl::StatusOr<Request> request = parse<Request>(http.body);
    if (!request.ok()) return http_failure(request.status());
    return http_answer((control.*run)(*request));
  };
}

}  // namespace

void add_control_routes(ControlService& control, bool allowed, HttpRoutes& routes) {
  const HttpHandler off = [](const HttpRequest&) {
    return http_failure(absl::PermissionDeniedError(kOff));
  };
  routes["POST /api/v1/attach"] = allowed ? command(control, &ControlService::attach) : off;
  routes["POST /api/v1/detach"] = allowed ? command(control, &ControlService::detach) : off;
  routes["POST /api/v1/rate"] = allowed ? command(control, &ControlService::set_rate) : off;
}

}  // namespace memprofd
