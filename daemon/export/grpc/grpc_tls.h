// SPDX-License-Identifier: Apache-2.0
// TLS of the gRPC server's TCP address. Files are looked at every ten seconds: certificates are
// renewed, and clients' authorities exchanged, without a restart.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class ServerCredentials;
}

namespace memprofd {

// PEM files.
struct GrpcTls {
  std::string cert_file;       // with its chain; empty: no TLS
  std::string key_file;        // of it
  std::string client_ca_file;  // who signs clients' certificates; empty: none is asked for
};

// kInvalidArgument: a file is missing, cannot be read or holds no PEM. No TLS without a
// certificate.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> grpc_credentials(const GrpcTls& tls);

}  // namespace memprofd
