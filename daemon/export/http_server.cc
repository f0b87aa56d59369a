#include "daemon/export/http_server.h"

#include <civetweb.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

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

constexpr char kThreads[] = "4";
constexpr char kRequestTimeoutMs[] = "10000";
constexpr std::size_t kCompressFrom = 1024;  // bytes; below, gzip costs more than it saves

// The library counts its users, so one of ours per process is enough.
void init_library_once() {
  static const unsigned features = mg_init_library(MG_FEATURES_TLS);
  (void)features;
}

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

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

void send_response(mg_connection* connection, const HttpResponse& response) {
  const mg_request_info* request = mg_get_request_info(connection);
  std::string compressed;
  if (response.body.size() >= kCompressFrom &&
      accepts_gzip(mg_get_header(connection, "Accept-Encoding"))) {
    compressed = gzip_compress(response.body);
  }
  const std::string& body = compressed.empty() ? response.body : compressed;
  std::string head =
      absl::StrCat("HTTP/1.1 ", response.status, " ", reason_of(response.status),
                   "\r\nContent-Type: ", response.content_type, "\r\nContent-Length: ", body.size(),
                   "\r\nVary: Accept-Encoding\r\nX-Content-Type-Options: nosniff"
                   "\r\nCache-Control: no-store\r\nConnection: close\r\n");
  if (!compressed.empty()) head += "Content-Encoding: gzip\r\n";
  if (response.status == 401) head += "WWW-Authenticate: Basic realm=\"memprofd\"\r\n";
  if (response.status == 405) head += "Allow: GET, HEAD\r\n";
  head += "\r\n";
  mg_write(connection, head.data(), head.size());
  if (std::strcmp(request->request_method, "HEAD") != 0) {
    mg_write(connection, body.data(), body.size());
  }
}

// civetweb takes certificate and key from one file: both, one after the other,
// in memory only. path opens it as long as the descriptor lives.
struct PemFile {
  UniqueFd fd;
  std::string path;  // empty: no TLS
};

absl::StatusOr<PemFile> combine_pem(const WebConfig& config) {
  if (config.cert_file.empty()) return PemFile{};
  std::ostringstream pem;
  for (const std::string& file : {config.cert_file, config.key_file}) {
    pem << std::ifstream(file).rdbuf() << "\n";
  }
  UniqueFd fd(::memfd_create("memprofd-tls", MFD_CLOEXEC));
  const std::string text = pem.str();
  if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return absl::InternalError(absl::StrCat("cannot hold the TLS key: ", std::strerror(errno)));
  }
  std::string path = absl::StrCat("/proc/self/fd/", fd.get());
  return PemFile{std::move(fd), std::move(path)};
}

// Options of civetweb as its null-terminated list of names and values.
struct CivetOptions {
  std::vector<std::string> texts;
  void set(const char* name, std::string value) {
    texts.emplace_back(name);
    texts.push_back(std::move(value));
  }
  std::vector<const char*> list() const {
    std::vector<const char*> out;
    for (const std::string& text : texts) out.push_back(text.c_str());
    out.push_back(nullptr);
    return out;
  }
};

CivetOptions civet_options(const NetAddress& address, const std::string& pem_path,
                           int min_tls_minor) {
  CivetOptions options;
  const char* tls_mark = pem_path.empty() ? "" : "s";
  // "+port" is every interface, IPv4 and IPv6.
  options.set("listening_ports", address.host.empty()
                                     ? absl::StrCat("+", address.port, tls_mark)
                                     : absl::StrCat(address.to_string(), tls_mark));
  options.set("num_threads", kThreads);
  options.set("request_timeout_ms", kRequestTimeoutMs);
  options.set("enable_directory_listing", "no");
  if (!pem_path.empty()) {
    options.set("ssl_certificate", pem_path);
    options.set("ssl_certificate_chain", pem_path);
    // civetweb's numbering: 2 is TLS 1.0 and later, 5 is TLS 1.3 only.
    options.set("ssl_protocol_version", absl::StrCat(min_tls_minor + 2));
  }
  return options;
}

mg_context* start_civetweb(const mg_callbacks& callbacks, void* user_data,
                           const CivetOptions& options, std::string& error_text) {
  const std::vector<const char*> list = options.list();
  mg_init_data init{};
  init.callbacks = &callbacks;
  init.user_data = user_data;
  init.configuration_options = const_cast<const char**>(list.data());
  std::array<char, 256> text{};
  unsigned code = 0;
  mg_error_data error{&code, text.data(), text.size()};
  mg_context* context = mg_start2(&init, &error);
  error_text = text.data();
  return context;
}

}  // namespace

HttpServer::HttpServer(HttpRoutes routes, std::unique_ptr<BasicAuth> auth)
    : routes_(std::move(routes)), auth_(std::move(auth)) {}

HttpServer::~HttpServer() {
  if (context_ != nullptr) mg_stop(context_);
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                              HttpRoutes routes) {
  WebConfig config;
  if (!options.web_config_file.empty()) {
    ASSIGN_OR_RETURN(config, load_web_config(options.web_config_file));
  }
  ASSIGN_OR_RETURN(const PemFile pem, combine_pem(config));
  auto auth = config.users.empty() ? nullptr : std::make_unique<BasicAuth>(config.users);
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(routes), std::move(auth)));
  RETURN_IF_ERROR(server->listen(options.listen_address, pem.path, config.min_tls_minor));
  return server;
}

absl::Status HttpServer::listen(const std::string& listen_address, const std::string& pem_path,
                                int min_tls_minor) {
  ASSIGN_OR_RETURN(const NetAddress asked, parse_net_address(listen_address));
  ASSIGN_OR_RETURN(NetAddress address, resolve(asked));
  // Asked first because civetweb does not tell why it could not.
  RETURN_IF_ERROR(check_listenable(address, "--web.listen-address"));
  init_library_once();
  mg_callbacks callbacks{};
  callbacks.begin_request = &HttpServer::on_request;
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };
  std::string error;
  context_ =
      start_civetweb(callbacks, this, civet_options(address, pem_path, min_tls_minor), error);
  if (context_ == nullptr && address.host.empty()) {
    address.host = "0.0.0.0";  // a machine without IPv6
    context_ =
        start_civetweb(callbacks, this, civet_options(address, pem_path, min_tls_minor), error);
  }
  if (context_ == nullptr) {
    const char* remedy =
        pem_path.empty()
            ? ""
            : "; check certificate and key, and that libssl.so is installed (libssl-dev)";
    return absl::UnavailableError(
        absl::StrCat("cannot serve HTTP on ", listen_address, ": ", error, remedy));
  }
  mg_server_port ports[1] = {};
  if (mg_get_server_ports(context_, 1, ports) == 1) port_ = ports[0].port;
  host_ = asked.host;
  tls_ = !pem_path.empty();
  return absl::OkStatus();
}

std::string HttpServer::url() const {
  std::string host = host_;
  if (host.empty() || host == "0.0.0.0" || host == "::") {
    std::array<char, 256> name{};
    host = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
  }
  return absl::StrCat(tls_ ? "https://" : "http://", NetAddress{host, port_}.to_string());
}

HttpResponse HttpServer::answer(mg_connection* connection) const {
  const mg_request_info* request = mg_get_request_info(connection);
  const absl::string_view method = request->request_method;
  if (auth_ != nullptr) {
    const char* authorization = mg_get_header(connection, "Authorization");
    if (!auth_->allows(authorization == nullptr ? "" : authorization)) {
      return {401, "text/plain; charset=utf-8", "user name and password needed\n"};
    }
  }
  if (method != "GET" && method != "HEAD") {
    return {405, "text/plain; charset=utf-8", "only GET and HEAD\n"};
  }
  const std::string path = request->local_uri == nullptr ? "" : request->local_uri;
  const auto route = routes_.find(path);
  if (route == routes_.end()) return {404, "text/plain; charset=utf-8", "not found\n"};
  return route->second({path, request->query_string == nullptr ? "" : request->query_string});
}

int HttpServer::on_request(mg_connection* connection) {
  const auto* server = static_cast<const HttpServer*>(mg_get_request_info(connection)->user_data);
  const HttpResponse response = server->answer(connection);
  send_response(connection, response);
  return response.status;
}

}  // namespace memprofd
