// SPDX-License-Identifier: Apache-2.0
// Requests of the page that are no plain questions: their bodies are JSON of the API's messages.
#pragma once

#include <google/protobuf/util/json_util.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/http/http_server.h"

namespace memprofd {

// Adds POST /api/v1/NAME. A request is refused unless allowed, from a page of another site
// (same_site.h), without a Content-Type of application/json, and from a client without the right to
// control, which is audited.
void add_command(const char* name, bool allowed, HttpHandler handler, HttpRoutes& routes);

template <typename Request>
absl::StatusOr<Request> parse_command(const std::string& body) {
  Request request;
  const auto status = google::protobuf::util::JsonStringToMessage(body, &request);
  if (status.ok()) return request;
  const std::string lines(status.message());  // the others show the place
  return absl::InvalidArgumentError(absl::StrCat("the body is not JSON of ",
                                                 Request::descriptor()->name(), ": ",
                                                 lines.substr(0, lines.find('\n'))));
}

}  // namespace memprofd
