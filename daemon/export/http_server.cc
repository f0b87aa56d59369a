#include "daemon/export/http_server.h"

#include <microhttpd.h>
#include <sys/socket.h>
#include <unistd.h>

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
#include "absl/strings/str_split.h"
#include "daemon/export/web_config.h"
#include "daemon/util/fd.h"
#include "daemon/util/gzip.h"
#include "daemon/util/net_address.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr unsigned kConnections = 128;
constexpr unsigned kIdleSeconds = 30;
constexpr int kBacklog = 64;
constexpr std::size_t kCompressFrom = 1024;  // bytes; below, gzip costs more than it saves

bool accepts_gzip(const char* accept_encoding) {
  if (accept_encoding == nullptr) return false;
  for (absl::string_view item : absl::StrSplit(accept_encoding, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits(';', 1));
    if (absl::StripAsciiWhitespace(parts.first) != "gzip") continue;
    const absl::string_view quality = absl::StripAsciiWhitespace(parts.second);
    return quality != "q=0" && !absl::StartsWith(quality, "q=0.0");
  }
  return false;
}

const char* request_header(MHD_Connection* connection, const char* name) {
  return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

MHD_Result send_response(MHD_Connection* connection, const HttpResponse& response) {
  std::string compressed;
  if (response.body.size() >= kCompressFrom &&
      accepts_gzip(request_header(connection, "Accept-Encoding"))) {
    compressed = gzip_compress(response.body);
  }
  const std::string& body = compressed.empty() ? response.body : compressed;
  MHD_Response* message = MHD_create_response_from_buffer(
      body.size(), const_cast<char*>(body.data()), MHD_RESPMEM_MUST_COPY);
  if (message == nullptr) return MHD_NO;
  MHD_add_response_header(message, "Content-Type", response.content_type.c_str());
  if (!response.file_name.empty()) {
    const std::string disposition =
        absl::StrCat("attachment; filename=\"", response.file_name, "\"");
    MHD_add_response_header(message, "Content-Disposition", disposition.c_str());
  }
  MHD_add_response_header(message, "Vary", "Accept-Encoding");
  MHD_add_response_header(message, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(message, "Cache-Control", "no-store");
  if (!compressed.empty()) MHD_add_response_header(message, "Content-Encoding", "gzip");
  if (response.status == MHD_HTTP_UNAUTHORIZED) {
    MHD_add_response_header(message, "WWW-Authenticate", "Basic realm=\"memprofd\"");
  }
  if (response.status == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(message, "Allow", "GET, HEAD");
  }
  const MHD_Result result =
      MHD_queue_response(connection, static_cast<unsigned>(response.status), message);
  MHD_destroy_response(message);
  return result;
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
  // Called for the head of a request, for each piece of its body, and at its end.
  static MHD_Result on_request(void* server, MHD_Connection* connection, const char* path,
                               const char* method, const char* /*version*/, const char* /*body*/,
                               std::size_t* body_bytes, void** seen) {
    if (*seen == nullptr) {
      *seen = server;  // anything but null
      return MHD_YES;
    }
    if (*body_bytes != 0) {
      *body_bytes = 0;  // nobody wants it
      return MHD_YES;
    }
    const auto& self = *static_cast<const HttpServer*>(server);
    return send_response(connection, self.answer(connection, method, path));
  }

  static MHD_Result on_query(void* query, MHD_ValueKind, const char* name, const char* value) {
    auto& out = *static_cast<std::multimap<std::string, std::string>*>(query);
    out.emplace(name, value == nullptr ? "" : value);
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

HttpServer::HttpServer(HttpRoutes routes, std::unique_ptr<BasicAuth> auth)
    : routes_(std::move(routes)), auth_(std::move(auth)) {}

HttpServer::~HttpServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                              HttpRoutes routes) {
  WebConfig config;
  if (!options.web_config_file.empty()) {
    ASSIGN_OR_RETURN(config, load_web_config(options.web_config_file));
  }
  auto auth = config.users.empty() ? nullptr : std::make_unique<BasicAuth>(config.users);
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(routes), std::move(auth)));
  RETURN_IF_ERROR(server->listen(options.listen_address, config));
  return server;
}

absl::StatusOr<UniqueFd> HttpServer::open_socket(const std::string& listen_address) {
  ASSIGN_OR_RETURN(const NetAddress asked, parse_net_address(listen_address));
  ASSIGN_OR_RETURN(const NetAddress address, resolve(asked));
  ASSIGN_OR_RETURN(UniqueFd socket, bind_tcp(address, "--web.listen-address"));
  if (::listen(socket.get(), kBacklog) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen_address, ": ", std::strerror(errno)));
  }
  host_ = asked.host;
  port_ = port_of(socket);
  return socket;
}

absl::Status HttpServer::listen(const std::string& listen_address, const WebConfig& config) {
  ASSIGN_OR_RETURN(UniqueFd socket, open_socket(listen_address));
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                   MHD_USE_AUTO | MHD_USE_ERROR_LOG;
  std::array<MHD_OptionItem, 4> tls{{{MHD_OPTION_END, 0, nullptr}}};
  const std::string priorities = tls_priorities(config.min_tls_minor);
  if (!config.cert_file.empty()) {
    flags |= MHD_USE_TLS;
    cert_ = read_text(config.cert_file);
    key_ = read_text(config.key_file);
    tls = {{{MHD_OPTION_HTTPS_MEM_CERT, 0, cert_.data()},
            {MHD_OPTION_HTTPS_MEM_KEY, 0, key_.data()},
            {MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(priorities.c_str())},
            {MHD_OPTION_END, 0, nullptr}}};
  }
  // The library closes the socket, in some cases also when it fails.
  daemon_ = MHD_start_daemon(
      flags, 0, nullptr, nullptr, &HttpCallbacks::on_request, this, MHD_OPTION_EXTERNAL_LOGGER,
      &HttpCallbacks::on_log, this, MHD_OPTION_LISTEN_SOCKET, socket.release(),
      MHD_OPTION_CONNECTION_LIMIT, kConnections, MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds,
      MHD_OPTION_ARRAY, tls.data(), MHD_OPTION_END);
  if (daemon_ == nullptr) {
    const char* remedy = cert_.empty() ? "" : "; check certificate and key";
    const std::lock_guard lock(log_mutex_);
    return absl::InvalidArgumentError(
        absl::StrCat("cannot serve HTTP on ", listen_address, ": ", first_message_, remedy));
  }
  return absl::OkStatus();
}

std::string HttpServer::url() const {
  std::string host = host_;
  if (host.empty() || host == "0.0.0.0" || host == "::") {
    std::array<char, 256> name{};
    host = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
  }
  return absl::StrCat(cert_.empty() ? "http://" : "https://", NetAddress{host, port_}.to_string());
}

HttpResponse HttpServer::answer(MHD_Connection* connection, std::string_view method,
                                const char* path) const {
  if (auth_ != nullptr) {
    const char* authorization = request_header(connection, "Authorization");
    if (!auth_->allows(authorization == nullptr ? "" : authorization)) {
      return {MHD_HTTP_UNAUTHORIZED, "text/plain; charset=utf-8", "user and password needed\n"};
    }
  }
  if (method != "GET" && method != "HEAD") {
    return {MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "only GET and HEAD\n"};
  }
  const auto route = routes_.find(path);
  if (route == routes_.end()) {
    return {MHD_HTTP_NOT_FOUND, "text/plain; charset=utf-8", "not found\n"};
  }
  HttpRequest request{path, {}};
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &HttpCallbacks::on_query,
                            &request.query);
  return route->second(request);
}

}  // namespace memprofd
