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
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/http/http_connections.h"
#include "daemon/export/http/http_send.h"
#include "daemon/export/http/web_config.h"
#include "daemon/util/fd.h"
#include "daemon/util/net_address.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr unsigned kConnections = 128;
constexpr unsigned kClosing = 128;  // more that have been cut off and are being closed
constexpr int kBacklog = 64;
constexpr std::chrono::seconds kGrace{1};    // for requests when the server ends
constexpr std::size_t kMaxBody = 64 * 1024;  // bytes
constexpr std::string_view kHealthPaths = "/-/";
constexpr std::string_view kMetricsPath = "/metrics";

HttpResponse text(int status, std::string line) {
  return {status, "text/plain; charset=utf-8", std::move(line)};
}

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

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// GnuTLS's way to say "this version of TLS or later".
std::string tls_priorities(int min_minor) {
  std::string out = "NORMAL";
  for (int minor = 0; minor < min_minor; ++minor) absl::StrAppend(&out, ":-VERS-TLS1.", minor);
  return out;
}

}  // namespace

// What libmicrohttpd calls.
struct HttpCallbacks {
  // What is kept of a request until all of it is there.
  struct Incoming {
    std::string body;
    bool too_large = false;
  };

  // Called for the head of a request, for each piece of its body, and at its end.
  static MHD_Result on_request(void* server, MHD_Connection* connection, const char* path,
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
    ++self.options_.stats->http_requests;
    HttpResponse response =
        incoming.too_large
            ? text(MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large: at most 64 KiB\n")
            : self.answer(connection, method, path, std::move(incoming.body));
    if (response.status == MHD_HTTP_UNAUTHORIZED || response.status == MHD_HTTP_FORBIDDEN) {
      ++self.options_.stats->http_refused;
    }
    if (!response.pieces) self.connections_->sending(connection);
    return send_response(connection, std::move(response)) ? MHD_YES : MHD_NO;
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
    const std::lock_guard lock(self.requests_mutex_);
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
    const std::lock_guard lock(self.log_mutex_);
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
  retire(std::move(current_));  // until then new ones come
  socket_.reset();
  std::unique_lock lock(requests_mutex_);
  no_requests_.wait_for(lock, kGrace, [this] { return requests_ == 0; });
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
  RETURN_IF_ERROR(check_access(config));
  const std::shared_ptr<BasicAuth> before = auth();
  std::shared_ptr<BasicAuth> wanted;
  if (!config.users.empty()) wanted = std::make_shared<BasicAuth>(config.users);
  // Passwords count before the first connection is taken: clients wait at the socket already.
  if (wanted != nullptr) set_auth(wanted);
  absl::StatusOr<Daemon> daemon = start_daemon(config);
  set_auth(daemon.ok() ? wanted : before);
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

absl::Status HttpServer::check_access(const WebConfig& config) const {
  if (!options_.controls || !config.users.empty() || loopback_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "whoever reaches ", options_.listen_address,
      " could attach to programs with "
      "--web.enable-control: set passwords with --web.config.file, or listen on 127.0.0.1"));
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
  loopback_ = is_loopback(address);
  port_ = port_of(socket_);
  return absl::OkStatus();
}

absl::StatusOr<HttpServer::Daemon> HttpServer::start_daemon(const WebConfig& config) {
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_AUTO |
                   MHD_USE_ERROR_LOG | MHD_USE_ITC;
  std::array<MHD_OptionItem, 4> tls{{{MHD_OPTION_END, 0, nullptr}}};
  const std::string priorities = tls_priorities(config.min_tls_minor);
  std::string cert, key;
  if (!config.cert_file.empty()) {
    flags |= MHD_USE_TLS;
    cert = read_text(config.cert_file);
    key = read_text(config.key_file);
    tls = {{{MHD_OPTION_HTTPS_MEM_CERT, 0, cert.data()},
            {MHD_OPTION_HTTPS_MEM_KEY, 0, key.data()},
            {MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(priorities.c_str())},
            {MHD_OPTION_END, 0, nullptr}}};
  }
  {
    const std::lock_guard lock(log_mutex_);
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
  ::explicit_bzero(key.data(), key.size());
  if (daemon != nullptr) return daemon;
  const char* remedy = cert.empty() ? "" : "; check certificate and key";
  const std::lock_guard lock(log_mutex_);
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

std::shared_ptr<BasicAuth> HttpServer::auth() const {
  const std::lock_guard lock(auth_mutex_);
  return auth_;
}

void HttpServer::set_auth(std::shared_ptr<BasicAuth> auth) {
  const std::lock_guard lock(auth_mutex_);
  auth_ = std::move(auth);
}

// A page of another site reaches memprofd through a visitor's browser when the site's name points
// here for a moment (DNS rebinding); the browser then sends that name. With passwords it has none
// for it. Prometheus may ask for metrics under any name where other machines can ask at all.
absl::Status HttpServer::check_host(std::string_view host, std::string_view path) const {
  if (is_local_name(host) || (!loopback_ && path == kMetricsPath)) return absl::OkStatus();
  const std::string name(host.substr(0, host.find(':')));
  const auto same = [&name](const std::string& own) { return absl::EqualsIgnoreCase(own, name); };
  std::array<char, 256> own{};
  if (!loopback_ && ::gethostname(own.data(), own.size() - 1) == 0 && same(own.data())) {
    return absl::OkStatus();
  }
  if (std::ranges::any_of(options_.host_names, same)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "\"", name,
      "\" may be a name that another site has made up: ask by address or as localhost, "
      "allow the name with --web.host-name, or set passwords with --web.config.file"));
}

// Health is for who looks after the machine, and tells nothing of programs.
std::optional<HttpResponse> HttpServer::refusal(MHD_Connection* connection, std::string_view path,
                                                std::optional<std::string>& user) const {
  if (path.starts_with(kHealthPaths)) return std::nullopt;
  const std::shared_ptr<BasicAuth> auth = this->auth();
  if (auth == nullptr) {
    const char* host = request_header(connection, "Host");
    const absl::Status allowed = check_host(host == nullptr ? "" : host, path);
    if (allowed.ok()) return std::nullopt;
    return text(MHD_HTTP_FORBIDDEN, absl::StrCat(std::string(allowed.message()), "\n"));
  }
  const char* authorization = request_header(connection, "Authorization");
  if (authorization != nullptr && auth->allows(authorization)) {
    user = BasicAuth::user_of(authorization);
    return std::nullopt;
  }
  return text(MHD_HTTP_UNAUTHORIZED, "user and password needed\n");
}

HttpResponse HttpServer::answer(MHD_Connection* connection, std::string_view method,
                                const char* path, std::string body) const {
  std::optional<std::string> user;
  if (auto refused = refusal(connection, path, user)) return *std::move(refused);
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
  request.caller = absl::StrCat(user ? *user + " at " : "", client_address(connection));
  return route->second(request);
}

}  // namespace memprofd
