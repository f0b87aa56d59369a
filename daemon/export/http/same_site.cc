// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/same_site.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace memprofd {

std::string header(const HttpRequest& request, const std::string& lower_case_name) {
  const auto found = request.headers.find(lower_case_name);
  return found == request.headers.end() ? "" : found->second;
}

absl::Status check_same_site(const HttpRequest& request) {
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
  return absl::OkStatus();
}

}  // namespace memprofd
