// SPDX-License-Identifier: Apache-2.0
// TLS of the gRPC server's TCP address. Its files are read again every ten seconds, so certificates
// are renewed and the authorities of clients exchanged without a restart. Files that fail the
// checks of tls_files.h are logged and not taken: the certificate before them stays in use.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/clients/tls_files.h"
#include "daemon/util/fd.h"
#include "daemon/util/stop_signal.h"

namespace grpc {
class ServerCredentials;
}

namespace memprofd {

// PEM files.
struct GrpcTls {
  std::string cert_file;  // with its chain; empty: no TLS
  std::string key_file;   // the certificate's key
  std::string
      // authorities that sign clients' certificates; empty: no certificate is required
      client_ca_file;

  bool any() const { return !cert_file.empty() || !key_file.empty() || !client_ca_file.empty(); }
};

// The gRPC library watches files by itself, but takes whatever it finds there. So it watches
// private copies in memory, which are exchanged after the check.
class GrpcCertificates {
 public:
  // kInvalidArgument as read_tls_files(), or when the certificate is given without a key.
  static absl::StatusOr<std::unique_ptr<GrpcCertificates>> read(const GrpcTls& files);
  ~GrpcCertificates();

  std::shared_ptr<grpc::ServerCredentials> credentials() const;

 private:
  explicit GrpcCertificates(GrpcTls files) : files_(std::move(files)) {}
  absl::Status take(const TlsTexts& texts);
  void reread();

  const GrpcTls files_;
  // Certificate and key share one file: gRPC never reads one of them new and one old.
  UniqueFd pair_, authorities_;
  std::string taken_;         // the texts in those two; used by the thread once it runs
  std::string last_refusal_;  // was logged; used by the thread
  StopSignal stop_;
  std::thread thread_;
};

}  // namespace memprofd
