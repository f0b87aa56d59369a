// SPDX-License-Identifier: Apache-2.0
// The Prometheus web configuration file: TLS and basic authentication for the
// HTTP server. Understood: tls_server_config (cert_file, key_file, min_version
// TLS10..TLS13, client_ca_file with a client_auth_type that verifies) and
// basic_auth_users (user: bcrypt hash). Any other key is an error, so that no
// one relies on protection that is not there.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/http/client_certificate.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {

// A well-formed hash of no known password, computed for unknown users.
inline constexpr char kNobodyHash[] =
    "$2b$10$abcdefghijklmnopqrstuuXTMLRb3S2K/qPvuQJF5Ulz4wmWVaOxC";

struct WebConfig {
  std::string cert_file;       // PEM; empty: no TLS
  std::string key_file;        // PEM
  std::string client_ca_file;  // PEM; with certificates of clients
  ClientCertificates client_certificates = ClientCertificates::kNone;
  int min_tls_minor = 2;                     // 1.0 to 1.3
  std::map<std::string, std::string> users;  // name to bcrypt hash; empty: no authentication
};

// Relative file names in it are relative to the file's folder.
absl::StatusOr<WebConfig> load_web_config(const std::string& path);

// Checks HTTP basic authentication. Thread-safe.
//
// bcrypt takes tens of milliseconds by design, so a successful check is remembered for a minute,
// and found without waiting for others. Hashes are computed one at a time, unknown users cost as
// much as known ones, and comparisons take the same time wherever texts differ.
class BasicAuth {
 public:
  using Clock = std::chrono::steady_clock;

  explicit BasicAuth(std::map<std::string, std::string> users);

  // authorization: value of the Authorization header; empty when there is none.
  bool allows(std::string_view authorization, Clock::time_point now = Clock::now());
  // The user name in an Authorization header for which allows() is true; empty if malformed.
  static std::string user_of(std::string_view authorization);

 private:
  struct Granted {
    std::string authorization;
    Clock::time_point until;
  };

  bool remembers(std::string_view authorization, Clock::time_point now);
  void remember(std::string_view authorization, Clock::time_point now);
  bool password_matches(const std::string& user, const std::string& password) const;

  const std::map<std::string, std::string> users_;
  Mutex granted_mutex_;
  std::vector<Granted> granted_ ABSL_GUARDED_BY(granted_mutex_);
  Mutex hashing_;  // held while a hash is computed
};

}  // namespace memprofd
