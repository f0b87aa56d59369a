// SPDX-License-Identifier: Apache-2.0
// Identifies HTTP clients and their rights: by password, by certificate, or by the host name that
// they use for this machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/export/http/client_certificate.h"
#include "daemon/export/http/http_server.h"
#include "daemon/export/http/web_config.h"
#include "daemon/util/threads/mutex.h"

struct MHD_Connection;

namespace memprofd {

// Thread-safe.
class HttpAccess {
 public:
  // Requirements from one reading of the web configuration.
  struct Rules {
    std::shared_ptr<BasicAuth> passwords;  // null: no password is required
    ClientCertificates certificates = ClientCertificates::kNone;
  };
  struct Caller {
    std::vector<std::string> names;  // the client's user name, and the names in its certificate
    std::string address;

    // The user to whom limits apply; never empty, because no HTTP client is known to be root.
    std::string user() const;
    std::string text() const;  // "alice at 10.0.0.7 port 4711"
  };

  // loopback: only this machine reaches the server.
  HttpAccess(const HttpServerOptions& options, bool loopback)
      : options_(options), loopback_(loopback) {}

  // Checks that with this web configuration no client can control programs without the right to.
  absl::Status check(const WebConfig& config) const;
  Rules rules() const;
  void set_rules(Rules rules);

  // Null if the request is permitted; also returns the caller.
  std::optional<HttpResponse> refusal(MHD_Connection* connection, std::string_view path,
                                      Caller& caller) const;
  bool may_control(const Caller& caller) const;

 private:
  absl::Status check_host(std::string_view host, std::string_view path) const;

  const HttpServerOptions& options_;
  const bool loopback_;
  mutable Mutex mutex_;
  Rules rules_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memprofd
