// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/http_access.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/http/http_send.h"
#include "daemon/util/net_address.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr std::string_view kHealthPaths = "/-/";
constexpr std::string_view kMetricsPath = "/metrics";

std::string client_address(MHD_Connection* connection) {
  const sockaddr* address =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
  const socklen_t size =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return absl::StrCat(host.data(), " port ", port.data());
}

HttpResponse refused(int status, absl::string_view why) {
  return {status, "text/plain; charset=utf-8", absl::StrCat(why, "\n")};
}

}  // namespace

std::string HttpAccess::Caller::user() const {
  if (!names.empty()) return printable(names.front());
  return absl::StrCat("HTTP from ", address.substr(0, address.find(' ')));
}

std::string HttpAccess::Caller::text() const {
  return names.empty() ? address : printable(absl::StrCat(names.front(), " at ", address));
}

absl::Status HttpAccess::check(const WebConfig& config) const {
  if (!options_.controls || loopback_ || !config.users.empty() ||
      config.client_certificates == ClientCertificates::kRequired) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("whoever reaches ", options_.listen_address,
                   " could attach to programs with --web.enable-control: set passwords or ask for "
                   "certificates with --web.config.file, or listen on 127.0.0.1"));
}

HttpAccess::Rules HttpAccess::rules() const {
  const MutexLock lock(mutex_);
  return rules_;
}

void HttpAccess::set_rules(Rules rules) {
  const MutexLock lock(mutex_);
  rules_ = std::move(rules);
}

// A page of another site can reach memprofd through a visitor's browser if the site's name resolves
// to this machine for a moment (DNS rebinding); the browser then sends that name. If passwords are
// set, the browser has none for that name. Prometheus may request metrics under any name if other
// machines can connect at all.
absl::Status HttpAccess::check_host(std::string_view host, std::string_view path) const {
  if (is_local_name(host) || (!loopback_ && path == kMetricsPath)) return absl::OkStatus();
  const std::string name(host.substr(0, host.find(':')));
  const auto same = [&name](const std::string& own) { return absl::EqualsIgnoreCase(own, name); };
  std::array<char, 256> own{};
  if (!loopback_ && ::gethostname(own.data(), own.size() - 1) == 0 && same(own.data())) {
    return absl::OkStatus();
  }
  if (std::ranges::any_of(options_.host_names, same)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("\"", name,
                   "\" is an unknown host name: use an IP address or localhost, allow the name "
                   "with --web.host-name, or set passwords with --web.config.file"));
}

// Health requests are not checked: they are for operators, and reveal nothing about programs.
// Requests that other sites cause in a browser have no certificate, because it belongs to a name
// that is not theirs.
std::optional<HttpResponse> HttpAccess::refusal(MHD_Connection* connection, std::string_view path,
                                                Caller& caller) const {
  caller.address = client_address(connection);
  if (path.starts_with(kHealthPaths)) return std::nullopt;
  const Rules rules = this->rules();
  if (rules.certificates != ClientCertificates::kNone) {
    auto names = client_certificate_names(connection);
    if (!names.ok()) return refused(MHD_HTTP_FORBIDDEN, names.status().message());
    if (names->empty() && rules.certificates == ClientCertificates::kRequired) {
      return refused(MHD_HTTP_FORBIDDEN,
                     "certificate required, signed by an authority of client_ca_file");
    }
    caller.names = *std::move(names);
  }
  if (rules.passwords == nullptr) {
    if (!caller.names.empty()) return std::nullopt;
    const char* host = request_header(connection, "Host");
    const absl::Status allowed = check_host(host == nullptr ? "" : host, path);
    if (allowed.ok()) return std::nullopt;
    return refused(MHD_HTTP_FORBIDDEN, allowed.message());
  }
  const char* authorization = request_header(connection, "Authorization");
  if (authorization == nullptr || !rules.passwords->allows(authorization)) {
    return refused(MHD_HTTP_UNAUTHORIZED, "user and password required");
  }
  caller.names.insert(caller.names.begin(), BasicAuth::user_of(authorization));
  return std::nullopt;
}

bool HttpAccess::may_control(const Caller& caller) const {
  const std::vector<std::string>& controllers = options_.controllers;
  return controllers.empty() || std::ranges::any_of(caller.names, [&](const std::string& name) {
           return std::ranges::find(controllers, name) != controllers.end();
         });
}

}  // namespace memprofd
