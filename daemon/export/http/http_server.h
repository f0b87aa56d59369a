// SPDX-License-Identifier: Apache-2.0
// One HTTP port with several endpoints. Handlers return a body, whole or in pieces;
// the server adds authentication, compression and headers.
#pragma once

#include <condition_variable>
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
  std::string path;                                    // decoded, without the query
  std::multimap<std::string, std::string> query = {};  // decoded; equal names in their order
  std::map<std::string, std::string> headers = {};     // by name in lower case
  std::string body = {};                               // of POST
  bool authenticated = false;                          // with a user's password
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::string file_name = {};  // suggested for saving; empty: none
  std::string allow = {};      // methods, of status 405
  // When set, body is not used: asked for the next piece until it answers an empty one.
  // It may take its time, and is gone when the client is.
  std::function<std::string()> pieces = {};
};

// Runs on a thread of its connection, and may take its time.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;
// By exact path; "POST /path" for that method, which has a body of at most 64 KiB.
using HttpRoutes = std::map<std::string, HttpHandler>;

struct HttpServerOptions {
  std::string listen_address = "127.0.0.1:9871";
  std::string web_config_file;  // empty: plain HTTP, no authentication
  // Not to be reached from other machines without a password: then start() refuses.
  bool controls = false;
  // A client that sends or takes nothing for so long is left. The time that a handler
  // takes does not count.
  unsigned idle_seconds = 30;
};

class HttpServer {
 public:
  // Serves routes, GET's also to HEAD, 404 to other paths, until destroyed. The
  // error is one line for people; kUnavailable when the port is in use.
  static absl::StatusOr<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                           HttpRoutes routes);
  // Waits for requests being served, but for two seconds at most.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The real one when port 0 was asked for.
  std::uint16_t port() const { return port_; }
  // "http://127.0.0.1:9871"; the machine's name stands for every interface.
  std::string url() const;

 private:
  HttpServer(HttpRoutes routes, std::unique_ptr<BasicAuth> auth);
  absl::StatusOr<UniqueFd> open_socket(const HttpServerOptions& options);
  absl::Status listen(const HttpServerOptions& options, const WebConfig& config);
  HttpResponse answer(MHD_Connection* connection, std::string_view method, const char* path,
                      std::string body) const;
  friend struct HttpCallbacks;

  const HttpRoutes routes_;
  const std::unique_ptr<BasicAuth> auth_;  // null: everybody may ask
  std::string cert_, key_;                 // PEM; empty without TLS
  std::string host_;
  std::uint16_t port_ = 0;
  std::mutex requests_mutex_;
  std::condition_variable no_requests_;
  int requests_ = 0;  // being served; guarded by requests_mutex_
  std::mutex log_mutex_;
  std::string first_message_;     // of libmicrohttpd; guarded by log_mutex_
  MHD_Daemon* daemon_ = nullptr;  // its threads use all of the above
};

}  // namespace memprofd
