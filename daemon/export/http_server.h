// One HTTP port with several endpoints. Everything is answered whole: handlers
// return a body, the server adds authentication, compression and headers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/util/fd.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace memprofd {

class BasicAuth;
struct WebConfig;

struct HttpRequest {
  std::string path;                               // decoded, without the query
  std::multimap<std::string, std::string> query;  // decoded; equal names in their order
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::string file_name;  // suggested for saving; empty: none
};

// Runs on a thread of its connection, and may take its time.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;
using HttpRoutes = std::map<std::string, HttpHandler>;  // by exact path

struct HttpServerOptions {
  std::string listen_address = "127.0.0.1:9871";
  std::string web_config_file;  // empty: plain HTTP, no authentication
};

class HttpServer {
 public:
  // Serves routes to GET and HEAD, 404 to other paths, until destroyed. The
  // error is one line for people; kUnavailable when the port is in use.
  static absl::StatusOr<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                           HttpRoutes routes);
  ~HttpServer();  // waits for requests being served
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The real one when port 0 was asked for.
  std::uint16_t port() const { return port_; }
  // "http://127.0.0.1:9871"; the machine's name stands for every interface.
  std::string url() const;

 private:
  HttpServer(HttpRoutes routes, std::unique_ptr<BasicAuth> auth);
  absl::StatusOr<UniqueFd> open_socket(const std::string& listen_address);
  absl::Status listen(const std::string& listen_address, const WebConfig& config);
  HttpResponse answer(MHD_Connection* connection, std::string_view method, const char* path) const;
  friend struct HttpCallbacks;

  const HttpRoutes routes_;
  const std::unique_ptr<BasicAuth> auth_;  // null: everybody may ask
  std::string cert_, key_;                 // PEM; empty without TLS
  std::string host_;
  std::uint16_t port_ = 0;
  std::mutex log_mutex_;
  std::string first_message_;     // of libmicrohttpd; guarded by log_mutex_
  MHD_Daemon* daemon_ = nullptr;  // its threads use all of the above
};

}  // namespace memprofd
