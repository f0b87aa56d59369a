// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/commands.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/export/http/same_site.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {
namespace {

constexpr char kOff[] =
    "control over HTTP is off: start memprofd with --web.enable-control, or use memprofctl";

bool is_json(const std::string& content_type) {
  const std::string type = content_type.substr(0, content_type.find(';'));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(type), "application/json");
}

absl::Status check_command(const HttpRequest& request) {
  if (!is_json(header(request, "content-type"))) {
    return absl::InvalidArgumentError("Content-Type must be application/json");
  }
  return check_same_site(request);
}

absl::Status check_controller(const HttpRequest& request) {
  if (request.may_control) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      request.caller, " may only ask: name the user or the certificate with --web.controllers"));
}

HttpResponse control_is_off(const HttpRequest& /*request*/) {
  return http_failure(absl::PermissionDeniedError(kOff));
}

// The pid in a refused request; 0: it contains none.
int pid_in(const std::string& body) {
  ::memprof::v1::DetachRequest request;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(body, &request, options);
  return parsed.ok() ? request.pid() : 0;
}

// Adds the checks that precede every command.
HttpHandler checked_command(HttpHandler handler) {
  return [handler = std::move(handler)](const HttpRequest& http) {
    if (absl::Status status = check_command(http); !status.ok()) return http_failure(status);
    const absl::Status allowed = check_controller(http);
    if (allowed.ok()) return handler(http);
    audit(pid_in(http.body), http.path, http.caller, allowed);
    return http_failure(allowed);
  };
}

}  // namespace

void add_command(const char* name, bool allowed, HttpHandler handler, HttpRoutes& routes) {
  routes[absl::StrCat("POST /api/v1/", name)] =
      allowed ? checked_command(std::move(handler)) : control_is_off;
}

}  // namespace memprofd
