// SPDX-License-Identifier: Apache-2.0
// One HTTP port with several endpoints. Handlers return a body, whole or in pieces;
// the server adds authentication, compression and headers.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/api/server_stats.h"
#include "daemon/util/fd.h"
#include "daemon/util/threads/mutex.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace memprofd {

class HttpAccess;
class HttpConnections;
struct WebConfig;

struct HttpRequest {
  std::string path;                                    // decoded, without the query
  std::multimap<std::string, std::string> query = {};  // decoded; equal names in their order
  std::map<std::string, std::string> headers = {};     // by name in lower case
  std::string body = {};                               // of POST
  // "alice at 10.0.0.7 port 4711"; only the address if the user is unknown
  std::string caller = {};
  bool may_control = true;  // programs, where anybody may
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::string file_name = {};  // suggested for saving; empty: none
  std::string allow = {};      // methods, of status 405
  // Further header fields, whose values need no escape.
  std::vector<std::pair<std::string, std::string>> fields = {};
  // If set, body is not used: called for the next piece until it returns an empty one. It may
  // block, and is destroyed when the client has gone. Nothing: the data so far is worthless, and
  // the connection is closed to show that.
  std::function<std::optional<std::string>()> pieces = {};
};

// Runs on a thread of its connection, and may take its time.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;
// Keyed by exact path; "POST /path" for that method, which has a body of at most 64 KiB.
using HttpRoutes = std::map<std::string, HttpHandler>;

struct HttpServerOptions {
  std::string listen_address = "127.0.0.1:9871";
  std::string web_config_file;  // empty: plain HTTP, no authentication
  // Not to be reached from other machines without password or certificate: then start() refuses.
  bool controls = false;
  // Host names besides localhost that need no password, where the name could be another site's
  // (check_host()).
  std::vector<std::string> host_names = {};
  // Clients that may control: users, and names of clients' certificates. Empty: all who may ask.
  std::vector<std::string> controllers = {};
  // A client is disconnected if it has not sent a whole request, or accepts no data, for this time.
  // The time of a handler does not count.
  unsigned idle_seconds = 30;
  std::shared_ptr<ServerStats> stats = std::make_shared<ServerStats>();
};

class HttpServer {
 public:
  // Serves routes, GET's also to HEAD, 404 to other paths, until destroyed. The
  // error is one line for people; kUnavailable when the port is in use.
  static absl::StatusOr<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                           HttpRoutes routes);
  // Waits for requests being served, but for a second at most.
  ~HttpServer();
  // Re-reads web configuration, certificate and key for new connections, and users and passwords
  // for new requests. An error leaves everything as it was. One thread at a time.
  absl::Status reload();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The port in use, also if port 0 was requested.
  std::uint16_t port() const { return port_; }
  // "http://127.0.0.1:9871"; the machine's name stands for every interface.
  std::string url() const;

 private:
  // libmicrohttpd, with the certificate of one reading of the web config.
  struct StopListener {
    void operator()(MHD_Daemon* daemon) const;
  };
  using Daemon = std::unique_ptr<MHD_Daemon, StopListener>;

  HttpServer(HttpServerOptions options, HttpRoutes routes);
  absl::Status open_socket();
  // Answers connections to the socket from then on, after which current_ is to be retired.
  absl::StatusOr<Daemon> start_daemon(const WebConfig& config);
  // Takes no more connections. Those that it has, go on, for as long as they like.
  void retire(Daemon daemon);
  HttpResponse answer(MHD_Connection* connection, std::string_view method, const char* path,
                      std::string body) const;
  // Labels of a request, from a small fixed set.
  RequestCounts::Kind kind_of(std::string_view method, const std::string& path) const;
  friend struct HttpCallbacks;

  const HttpServerOptions options_;
  const HttpRoutes routes_;
  UniqueFd socket_;  // listening; each daemon has a descriptor of its own for it
  std::string host_;
  std::uint16_t port_ = 0;
  std::unique_ptr<HttpAccess> access_;  // from open_socket() on
  bool tls_ = false;
  const std::unique_ptr<HttpConnections> connections_;
  Mutex requests_mutex_;
  Condition no_requests_;
  int requests_ ABSL_GUARDED_BY(requests_mutex_) = 0;  // being served
  Mutex log_mutex_;
  std::string first_message_ ABSL_GUARDED_BY(log_mutex_);  // of libmicrohttpd
  // One that a reload has retired. To stop it would be to wait for its clients. Its descriptor of
  // the socket stays open until it has stopped (microhttpd.h, MHD_quiesce_daemon).
  struct Retired {
    UniqueFd listening;
    Daemon daemon;
  };
  // Their threads use all of the above.
  std::list<Retired> retired_;
  Daemon current_;
};

}  // namespace memprofd
