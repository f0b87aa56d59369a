// SPDX-License-Identifier: Apache-2.0
// The PEM files of a server's TLS. They are checked before a server takes them: a certificate with
// a foreign key, or one that has expired, would only show when the handshakes of clients fail.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memprofd {

struct TlsFile {
  std::string option;  // names the file in messages: "--grpc.tls.cert-file"
  std::string path;
};

struct TlsTexts {
  std::string certificate;  // with its chain
  std::string key;
  std::string client_authorities;  // empty: clients need no certificate
};

// Reads and checks all of them; client_authorities may have an empty path. kInvalidArgument: a file
// cannot be read or is not PEM of its kind, the key does not belong to the certificate, or the
// certificate is not valid now.
absl::StatusOr<TlsTexts> read_tls_files(const TlsFile& certificate, const TlsFile& key,
                                        const TlsFile& client_authorities);

}  // namespace memprofd
