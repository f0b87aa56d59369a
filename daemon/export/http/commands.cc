// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/commands.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/export/http/same_site.h"

namespace memprofd {
namespace {

constexpr char kOff[] =
    "control over HTTP is off: start memprofd with --web.enable-control, or use memprofctl";

bool is_json(const std::string& content_type) {
  const std::string type = content_type.substr(0, content_type.find(';'));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(type), "application/json");
}

}  // namespace

HttpResponse control_is_off(const HttpRequest& /*request*/) {
  return http_failure(absl::PermissionDeniedError(kOff));
}

absl::Status check_command(const HttpRequest& request) {
  if (!is_json(header(request, "content-type"))) {
    return absl::InvalidArgumentError("Content-Type must be application/json");
  }
  return check_same_site(request);
}

}  // namespace memprofd
