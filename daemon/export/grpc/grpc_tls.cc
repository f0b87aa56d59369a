// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_tls.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/guard.h"
#include "daemon/util/log.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/start_thread.h"

namespace memprofd {
namespace {

constexpr unsigned kRefreshSeconds = 10;

absl::StatusOr<TlsTexts> read_files(const GrpcTls& files) {
  const TlsFile certificate{"--grpc.tls.cert-file", files.cert_file};
  const TlsFile key{"--grpc.tls.key-file", files.key_file};
  for (const TlsFile& file : {certificate, key}) {
    if (file.path.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("gRPC over TLS needs ", file.option, " too"));
    }
  }
  return read_tls_files(certificate, key, {"--grpc.tls.client-ca-file", files.client_ca_file});
}

// Replaces the file behind a descriptor's number in one step: gRPC opens it by that number.
absl::Status replace_file(UniqueFd& file, const std::string& text) {
  UniqueFd fresh(::memfd_create("memprofd-tls", MFD_CLOEXEC));
  const int error = fresh ? write_all(fresh.get(), text) : errno;
  if (error == 0 && !file) {
    file = std::move(fresh);
    return absl::OkStatus();
  }
  if (error == 0 && ::dup3(fresh.get(), file.get(), O_CLOEXEC) >= 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot keep TLS certificates: ", std::strerror(error != 0 ? error : errno)));
}

std::string path_of(const UniqueFd& file) {
  return file ? absl::StrCat("/proc/self/fd/", file.get()) : "";
}

}  // namespace

absl::Status GrpcCertificates::take(const TlsTexts& texts) {
  const std::string pair = absl::StrCat(texts.certificate, "\n", texts.key);
  const std::string all = absl::StrCat(pair, texts.client_authorities);
  if (all == taken_) return absl::OkStatus();
  RETURN_IF_ERROR(replace_file(pair_, pair));
  if (!files_.client_ca_file.empty()) {
    RETURN_IF_ERROR(replace_file(authorities_, texts.client_authorities));
  }
  if (!taken_.empty()) log_info("reloaded the certificates of gRPC");
  taken_ = all;
  return absl::OkStatus();
}

void GrpcCertificates::reread() {
  const absl::StatusOr<TlsTexts> texts = read_files(files_);
  const absl::Status status = texts.ok() ? take(*texts) : texts.status();
  const std::string refusal(status.message());
  if (!refusal.empty() && refusal != last_refusal_) {
    log_warning("keeping the previous certificates of gRPC: {}", refusal);
  }
  last_refusal_ = refusal;
}

absl::StatusOr<std::unique_ptr<GrpcCertificates>> GrpcCertificates::read(const GrpcTls& files) {
  ASSIGN_OR_RETURN(const TlsTexts texts, read_files(files));
  std::unique_ptr<GrpcCertificates> certificates(new GrpcCertificates(files));
  RETURN_IF_ERROR(certificates->take(texts));
  ASSIGN_OR_RETURN(certificates->thread_,
                   start_thread("to renew certificates", [self = certificates.get()] {
                     ::pthread_setname_np(::pthread_self(), "memprofd-tls");
                     while (self->stop_.wait(std::chrono::seconds(kRefreshSeconds))) {
                       guarded("to read certificates", [self] { self->reread(); });
                     }
                   }));
  return certificates;
}

GrpcCertificates::~GrpcCertificates() {
  stop_.stop();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<grpc::ServerCredentials> GrpcCertificates::credentials() const {
  using namespace grpc::experimental;
  const bool clients = static_cast<bool>(authorities_);
  const std::string pair = path_of(pair_);
  TlsServerCredentialsOptions options(std::make_shared<FileWatcherCertificateProvider>(
      pair, pair, path_of(authorities_), kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (clients) options.watch_root_certs();
  options.set_cert_request_type(clients ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                        : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return TlsServerCredentials(options);
}

}  // namespace memprofd
