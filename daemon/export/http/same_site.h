// SPDX-License-Identifier: Apache-2.0
// Requests with effects are for memprofd's own page and for programs, not for pages of other
// sites in a visitor's browser:
//   - They are POST and need the header X-Memprofd-Control: 1, which a browser does not send to
//     another origin without asking it first (CORS preflight, an OPTIONS request), which
//     memprofd refuses.
//   - Origin, if it is sent, must equal Host.
//   - A Host that may be another site's name, pointing at us (DNS rebinding), is refused to every
//     request before it gets here (HttpServer::check_host()).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/export/http/http_server.h"

namespace memprofd {

// Empty when there is none.
std::string header(const HttpRequest& request, const std::string& lower_case_name);

// kPermissionDenied when a page of another site may be behind the request.
absl::Status check_same_site(const HttpRequest& request);

}  // namespace memprofd
