// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_tls.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr unsigned kRefreshSeconds = 10;

absl::Status check_pem(const std::string& path, const char* option) {
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("gRPC over TLS needs ", option, " too"));
  }
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open() || !absl::StrContains(text, "-----BEGIN ")) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", path, ": ",
                     in.is_open() ? "holds no PEM; give a file that begins with -----BEGIN"
                                  : "cannot be read; check path and permissions"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> grpc_credentials(const GrpcTls& tls) {
  using namespace grpc::experimental;
  if (tls.cert_file.empty() && tls.key_file.empty() && tls.client_ca_file.empty()) {
    return grpc::InsecureServerCredentials();
  }
  RETURN_IF_ERROR(check_pem(tls.cert_file, "--grpc.tls.cert-file"));
  RETURN_IF_ERROR(check_pem(tls.key_file, "--grpc.tls.key-file"));
  const bool clients = !tls.client_ca_file.empty();
  if (clients) RETURN_IF_ERROR(check_pem(tls.client_ca_file, "--grpc.tls.client-ca-file"));
  TlsServerCredentialsOptions options(std::make_shared<FileWatcherCertificateProvider>(
      tls.key_file, tls.cert_file, tls.client_ca_file, kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (clients) options.watch_root_certs();
  options.set_cert_request_type(clients ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                        : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return TlsServerCredentials(options);
}

}  // namespace memprofd
