// SPDX-License-Identifier: Apache-2.0
// The certificate of an HTTPS client. libmicrohttpd requests one but leaves its verification to us.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct MHD_Connection;

namespace memprofd {

// NoClientCert, VerifyClientCertIfGiven and RequireAndVerifyClientCert of Prometheus' web
// configuration.
enum class ClientCertificates { kNone, kIfGiven, kRequired };

// The names that it is for, of its subject and alternative ones (DNS, mail); empty when none is
// shown. kPermissionDenied: no authority that is trusted has signed it, or not for clients, or not
// for now.
absl::StatusOr<std::vector<std::string>> client_certificate_names(MHD_Connection* connection);

}  // namespace memprofd
