// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/http_server.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/clients/tls_files.h"
#include "daemon/export/http/http_access.h"
#include "daemon/export/http/http_connections.h"
#include "daemon/export/http/http_send.h"
#include "daemon/export/http/web_config.h"
#include "daemon/util/fd.h"
#include "daemon/util/guard.h"
#include "daemon/util/net_address.h"
#include "daemon/util/scoped_user.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr unsigned kConnections = 128;
constexpr unsigned kClosing = 128;  // more that have been cut off and are being closed
constexpr int kBacklog = 64;
constexpr std::chrono::seconds kGrace{1};    // for requests when the server ends
constexpr std::size_t kMaxBody = 64 * 1024;  // bytes

HttpResponse text(int status, std::string line) {
  return {status, "text/plain; charset=utf-8", std::move(line)};
}

// GnuTLS's notation for "this version of TLS or later".
std::string tls_priorities(int min_minor) {
  std::string out = "NORMAL";
  for (int minor = 0; minor < min_minor; ++minor) absl::StrAppend(&out, ":-VERS-TLS1.", minor);
  return out;
}

}  // namespace

// Callbacks of libmicrohttpd.
struct HttpCallbacks {
  // The part of a request that has arrived, until it is complete.
  struct Incoming {
    std::string body;
    bool too_large = false;
  };

  // Called for the head of a request, for each piece of its body, and at its end.
  static MHD_Result on_request(void* server, MHD_Connection* connection, const char* path,
                               const char* method, const char* version, const char* body,
                               std::size_t* body_bytes, void** seen) {
    MHD_Result result = MHD_NO;
    guarded("to take a request over HTTP", [&] {
      result = take_request(server, connection, path, method, version, body, body_bytes, seen);
    });
    return result;
  }

  static MHD_Result take_request(void* server, MHD_Connection* connection, const char* path,
                                 const char* method, const char* /*version*/, const char* body,
                                 std::size_t* body_bytes, void** seen) {
    if (*seen == nullptr) {
      *seen = new Incoming;
      count_request(server, 1);
      return MHD_YES;
    }
    Incoming& incoming = *static_cast<Incoming*>(*seen);
    if (*body_bytes != 0) {
      incoming.too_large |= incoming.body.size() + *body_bytes > kMaxBody;
      if (!incoming.too_large) incoming.body.append(body, *body_bytes);
      *body_bytes = 0;
      return MHD_YES;
    }
    const auto& self = *static_cast<const HttpServer*>(server);
    self.connections_->asked(connection);
    const auto began = std::chrono::steady_clock::now();
    HttpResponse response;
    if (incoming.too_large) {
      response = text(MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large: at most 64 KiB\n");
    } else if (!guarded("to answer a request over HTTP", [&] {
                 response = self.answer(connection, method, path, std::move(incoming.body));
               })) {
      response = text(MHD_HTTP_INTERNAL_SERVER_ERROR,
                      "memprofd failed to answer; see its log, and ask again later\n");
    }
    if (response.status == MHD_HTTP_UNAUTHORIZED || response.status == MHD_HTTP_FORBIDDEN) {
      ++self.options_.stats->http_refused;
    }
    if (!response.pieces) self.connections_->sending(connection, response.body.size());
    const std::string status = absl::StrCat(response.status);
    const bool sent = send_response(connection, std::move(response));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
    self.options_.stats->http.end(self.kind_of(method, path), status, taken.count());
    return sent ? MHD_YES : MHD_NO;
  }

  static void on_connection(void* server, MHD_Connection* connection, void** /*kept*/,
                            MHD_ConnectionNotificationCode code) {
    HttpConnections& connections = *static_cast<const HttpServer*>(server)->connections_;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) return connections.ended(connection);
    connections.began(
        connection,
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
  }

  static void on_completed(void* server, MHD_Connection* connection, void** seen,
                           MHD_RequestTerminationCode) {
    if (*seen == nullptr) return;
    static_cast<const HttpServer*>(server)->connections_->answered(connection);
    delete static_cast<Incoming*>(std::exchange(*seen, nullptr));
    count_request(server, -1);
  }

  static void count_request(void* server, int change) {
    auto& self = *static_cast<HttpServer*>(server);
    const MutexLock lock(self.requests_mutex_);
    self.requests_ += change;
    if (self.requests_ == 0) self.no_requests_.notify_all();
  }

  static MHD_Result on_query(void* query, MHD_ValueKind, const char* name, const char* value) {
    auto& out = *static_cast<std::multimap<std::string, std::string>*>(query);
    out.emplace(name, value == nullptr ? "" : value);
    return MHD_YES;
  }

  static MHD_Result on_header(void* headers, MHD_ValueKind, const char* name, const char* value) {
    auto& out = *static_cast<std::map<std::string, std::string>*>(headers);
    out[absl::AsciiStrToLower(name)] = value == nullptr ? "" : value;
    return MHD_YES;
  }

  // Keeps the first message: when the start fails, it names the cause.
  static void on_log(void* server, const char* format, va_list arguments) {
    auto& self = *static_cast<HttpServer*>(server);
    std::array<char, 512> text{};
    std::vsnprintf(text.data(), text.size(), format, arguments);
    const absl::string_view message = absl::StripAsciiWhitespace(text.data());
    const MutexLock lock(self.log_mutex_);
    if (self.first_message_.empty()) self.first_message_ = std::string(message);
  }
};

HttpServer::HttpServer(HttpServerOptions options, HttpRoutes routes)
    : options_(std::move(options)),
      routes_(std::move(routes)),
      connections_(std::make_unique<HttpConnections>(
          HttpConnectionLimits{.connections = kConnections,
                               .head_patience = std::chrono::seconds(options_.idle_seconds)},
          options_.stats)) {}

void HttpServer::StopListener::operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }

HttpServer::~HttpServer() {
  if (current_ == nullptr) return;
  retire(std::move(current_));  // before this, new requests arrive
  socket_.reset();
  const auto until = std::chrono::steady_clock::now() + kGrace;
  const MutexLock lock(requests_mutex_);
  while (requests_ > 0 && no_requests_.wait_until(requests_mutex_, until)) {
  }
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                              HttpRoutes routes) {
  std::unique_ptr<HttpServer> server(new HttpServer(options, std::move(routes)));
  RETURN_IF_ERROR(server->open_socket());
  RETURN_IF_ERROR(server->reload());
  return server;
}

absl::Status HttpServer::reload() {
  WebConfig config;
  if (!options_.web_config_file.empty()) {
    ASSIGN_OR_RETURN(config, load_web_config(options_.web_config_file));
  }
  RETURN_IF_ERROR(access_->check(config));
  const HttpAccess::Rules before = access_->rules();
  HttpAccess::Rules wanted{.certificates = config.client_certificates};
  if (!config.users.empty()) wanted.passwords = std::make_shared<BasicAuth>(config.users);
  // Applies them before the first connection is accepted, because clients may already wait at the
  // socket.
  access_->set_rules(wanted);
  absl::StatusOr<Daemon> daemon = start_daemon(config);
  if (!daemon.ok()) access_->set_rules(before);
  RETURN_IF_ERROR(daemon.status());
  tls_ = !config.cert_file.empty();
  retire(std::exchange(current_, *std::move(daemon)));
  return absl::OkStatus();
}

void HttpServer::retire(Daemon daemon) {
  retired_.remove_if([](const Retired& retired) {
    return MHD_get_daemon_info(retired.daemon.get(), MHD_DAEMON_INFO_CURRENT_CONNECTIONS)
               ->num_connections == 0;
  });
  if (daemon == nullptr) return;
  UniqueFd listening(MHD_quiesce_daemon(daemon.get()));
  retired_.push_back({std::move(listening), std::move(daemon)});
}

absl::Status HttpServer::open_socket() {
  const std::string& listen_address = options_.listen_address;
  ASSIGN_OR_RETURN(const NetAddress asked, parse_net_address(listen_address));
  ASSIGN_OR_RETURN(const NetAddress address, resolve(asked));
  ASSIGN_OR_RETURN(socket_, bind_tcp(address, "--web.listen-address"));
  if (::listen(socket_.get(), kBacklog) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen_address, ": ", std::strerror(errno)));
  }
  host_ = asked.host;
  access_ = std::make_unique<HttpAccess>(options_, is_loopback(address));
  port_ = port_of(socket_);
  return absl::OkStatus();
}

absl::StatusOr<HttpServer::Daemon> HttpServer::start_daemon(const WebConfig& config) {
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_AUTO |
                   MHD_USE_ERROR_LOG | MHD_USE_ITC;
  std::array<MHD_OptionItem, 5> tls{{{MHD_OPTION_END, 0, nullptr}}};
  const std::string priorities = tls_priorities(config.min_tls_minor);
  TlsTexts texts;
  if (!config.cert_file.empty()) {
    flags |= MHD_USE_TLS;
    ASSIGN_OR_RETURN(texts,
                     read_tls_files({"cert_file", config.cert_file}, {"key_file", config.key_file},
                                    {"client_ca_file", config.client_ca_file}));
    tls = {{{MHD_OPTION_HTTPS_MEM_CERT, 0, texts.certificate.data()},
            {MHD_OPTION_HTTPS_MEM_KEY, 0, texts.key.data()},
            {MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(priorities.c_str())},
            {MHD_OPTION_END, 0, nullptr},
            {MHD_OPTION_END, 0, nullptr}}};
  }
  if (config.client_certificates != ClientCertificates::kNone) {
    tls[3] = {MHD_OPTION_HTTPS_MEM_TRUST, 0, texts.client_authorities.data()};
  }
  {
    const MutexLock lock(log_mutex_);
    first_message_.clear();
  }
  // The library closes the descriptor, in some cases also when it fails.
  Daemon daemon(MHD_start_daemon(
      flags, 0, nullptr, nullptr, &HttpCallbacks::on_request, this, MHD_OPTION_EXTERNAL_LOGGER,
      &HttpCallbacks::on_log, this, MHD_OPTION_LISTEN_SOCKET,
      ::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0), MHD_OPTION_NOTIFY_COMPLETED,
      &HttpCallbacks::on_completed, this, MHD_OPTION_NOTIFY_CONNECTION,
      &HttpCallbacks::on_connection, this, MHD_OPTION_CONNECTION_LIMIT, kConnections + kClosing,
      MHD_OPTION_CONNECTION_TIMEOUT, options_.idle_seconds, MHD_OPTION_ARRAY, tls.data(),
      MHD_OPTION_END));
  ::explicit_bzero(texts.key.data(), texts.key.size());
  if (daemon != nullptr) return daemon;
  const char* remedy = texts.certificate.empty() ? "" : "; check certificate and key";
  const MutexLock lock(log_mutex_);
  return absl::InvalidArgumentError(
      absl::StrCat("cannot serve HTTP on ", options_.listen_address, ": ", first_message_, remedy));
}

std::string HttpServer::url() const {
  std::string host = host_;
  if (host.empty() || host == "0.0.0.0" || host == "::") {
    std::array<char, 256> name{};
    host = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
  }
  return absl::StrCat(tls_ ? "https://" : "http://", NetAddress{host, port_}.to_string());
}

RequestCounts::Kind HttpServer::kind_of(std::string_view method, const std::string& path) const {
  const bool known = path.starts_with('/') &&
                     (routes_.contains(path) || routes_.contains(absl::StrCat("POST ", path)));
  const bool usual = method == "GET" || method == "HEAD" || method == "POST";
  return {{"handler", known ? path : "other"}, {"method", usual ? std::string(method) : "other"}};
}

HttpResponse HttpServer::answer(MHD_Connection* connection, std::string_view method,
                                const char* path, std::string body) const {
  HttpAccess::Caller caller;
  if (auto refused = access_->refusal(connection, path, caller)) return *std::move(refused);
  if (*path != '/') return text(MHD_HTTP_NOT_FOUND, "not found\n");  // "POST /path", say
  const auto get = routes_.find(path), post = routes_.find(absl::StrCat("POST ", path));
  if (get == routes_.end() && post == routes_.end()) return text(MHD_HTTP_NOT_FOUND, "not found\n");
  const auto route = method == "POST"                      ? post
                     : method == "GET" || method == "HEAD" ? get
                                                           : routes_.end();
  if (route == routes_.end()) {
    HttpResponse refusal = text(MHD_HTTP_METHOD_NOT_ALLOWED, "");
    refusal.allow = get == routes_.end() ? "POST" : "GET, HEAD";
    refusal.body = absl::StrCat("only ", refusal.allow, "\n");
    return refusal;
  }
  HttpRequest request{.path = path, .body = std::move(body)};
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &HttpCallbacks::on_query,
                            &request.query);
  MHD_get_connection_values(connection, MHD_HEADER_KIND, &HttpCallbacks::on_header,
                            &request.headers);
  request.caller = caller.text();
  request.may_control = access_->may_control(caller);
  const ScopedUser as_user(caller.user());
  return route->second(request);
}

}  // namespace memprofd
