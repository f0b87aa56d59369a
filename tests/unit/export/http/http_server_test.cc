// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/http_server.h"

#include <arpa/inet.h>
#include <crypt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <latch>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/http/page_routes.h"
#include "daemon/export/http/web_config.h"
#include "daemon/util/fd.h"
#include "daemon/util/guard.h"
#include "daemon/util/gzip.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using testing::FakeService;
using testing::fixed_target;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

// Head and body of the answer to a request, as bytes.
struct Answer {
  std::string head, body;
};

Answer request(int port, const std::string& text) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  if (::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return {};
  std::string all;
  char buffer[4096];
  for (ssize_t n; (n = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;) all.append(buffer, n);
  const std::size_t end = all.find("\r\n\r\n");
  if (end == all.npos) return {all, ""};
  return {all.substr(0, end + 2), all.substr(end + 4)};
}

Answer get(int port, const std::string& path, const std::string& headers = "") {
  return request(port,
                 absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
                              headers, "\r\n"));
}

std::string gunzip(const std::string& data) {
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  std::string out(1 << 22, '\0');
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int rc = inflate(&stream, Z_FINISH);
  out.resize(rc == Z_STREAM_END ? stream.total_out : 0);
  inflateEnd(&stream);
  return out;
}

class HttpServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<HttpServer> serve(const std::string& web_config = "") {
    auto server = HttpServer::start({"127.0.0.1:0", web_config},
                                    make_routes(exporter_, {[this] { return ready_.load(); },
                                                            [this] { return healthy_.load(); }}));
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }

  FakeService service_{{fixed_target()}};
  PrometheusExporter exporter_{service_, {"1.2.3"}};
  std::atomic<bool> ready_ = true;
  std::atomic<bool> healthy_ = true;
  TempDir dir_;
};

TEST_F(HttpServerTest, ServesMetrics) {
  const auto server = serve();
  ASSERT_GT(server->port(), 0);
  EXPECT_EQ(server->url(), absl::StrCat("http://127.0.0.1:", server->port()));
  const Answer answer = get(server->port(), "/metrics");
  EXPECT_THAT(answer.head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(answer.head, HasSubstr(absl::StrCat("Content-Length: ", answer.body.size(), "\r\n")));
  EXPECT_EQ(answer.body, exporter_.text());
}

TEST_F(HttpServerTest, CompressesWhenAsked) {
  const auto server = serve();
  const Answer answer = get(server->port(), "/metrics", "Accept-Encoding: br, gzip;q=0.8\r\n");
  EXPECT_THAT(answer.head, HasSubstr("Content-Encoding: gzip\r\n"));
  EXPECT_EQ(gunzip(answer.body), exporter_.text());
  const Answer refused = get(server->port(), "/metrics", "Accept-Encoding: gzip;q=0\r\n");
  EXPECT_EQ(refused.body, exporter_.text());
}

TEST_F(HttpServerTest, SaysWhetherItIsHealthyAndReady) {
  const auto server = serve();
  EXPECT_EQ(get(server->port(), "/-/healthy").body, "memprofd is healthy.\n");
  EXPECT_THAT(get(server->port(), "/-/ready").head, StartsWith("HTTP/1.1 200"));
  ready_ = false;
  EXPECT_THAT(get(server->port(), "/-/ready").head, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(get(server->port(), "/-/healthy").head, StartsWith("HTTP/1.1 200"));
  healthy_ = false;
  EXPECT_THAT(get(server->port(), "/-/healthy").head, StartsWith("HTTP/1.1 503"));
}

TEST_F(HttpServerTest, RefusesOtherPathsAndMethods) {
  const auto server = serve();
  for (const char* path : {"/nothing", "/metrics/", "/../etc/passwd", "/metricsx", "//"}) {
    EXPECT_THAT(get(server->port(), path).head, StartsWith("HTTP/1.1 404")) << path;
  }
  const Answer post = request(server->port(),
                              "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: "
                              "close\r\nContent-Length: 0\r\n\r\n");
  EXPECT_THAT(post.head, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(post.head, HasSubstr("Allow: GET, HEAD\r\n"));
  const Answer head = request(
      server->port(), "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head.head, StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(head.body, "");
}

TEST_F(HttpServerTest, ServesManyAtOnce) {
  const auto server = serve();
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&] {
        for (int n = 0; n < 5; ++n) good += get(server->port(), "/metrics").body.size() > 1000;
      });
    }
  }
  EXPECT_EQ(good, 40);
}

TEST_F(HttpServerTest, AnExceptionIsAnErrorAndNotTheEnd) {
  const std::uint64_t before = unexpected_errors();
  HttpRoutes routes;
  routes["/throws"] = [](const HttpRequest&) -> HttpResponse { throw std::bad_alloc(); };
  routes["/pieces"] = [](const HttpRequest&) {
    HttpResponse response{200, "text/plain", ""};
    response.pieces = []() -> std::optional<std::string> { throw std::bad_alloc(); };
    return response;
  };
  routes["/fine"] = [](const HttpRequest&) { return HttpResponse{200, "text/plain", "fine"}; };
  const auto server = HttpServer::start({"127.0.0.1:0"}, routes);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  EXPECT_THAT(get(port, "/throws").head, StartsWith("HTTP/1.1 500 "));
  get(port, "/pieces");
  EXPECT_EQ("fine", get(port, "/fine").body);
  EXPECT_EQ(before + 2, unexpected_errors());
}

TEST_F(HttpServerTest, SaysWhenThePortIsInUse) {
  const auto server = serve();
  const std::string address = absl::StrCat("127.0.0.1:", server->port());
  const auto second = HttpServer::start({address, ""}, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            absl::StrCat("cannot listen on ", address,
                         ": the port is in use; stop the other program or choose another with "
                         "--web.listen-address"));
}

TEST_F(HttpServerTest, RefusesBadAddresses) {
  for (const char* address :
       {"nonsense", "127.0.0.1:99999", "203.0.113.7:0", "no.such.invalid:1"}) {
    const auto server = HttpServer::start({address, ""}, {});
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(server.status().message()),
                HasSubstr(std::string(address).substr(0, 8)));
  }
}

TEST_F(HttpServerTest, ListensOnEveryInterface) {
  const auto server = HttpServer::start(
      {":0", ""}, make_routes(exporter_, {[] { return true; }, [] { return true; }}));
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(get((*server)->port(), "/-/healthy").head, StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, NamesOfOtherSitesAreRefused) {
  const auto head = [](int port, const char* path, const std::string& host) {
    return request(port, absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", host,
                                      "\r\nConnection: close\r\n\r\n"))
        .head;
  };
  auto server =
      HttpServer::start({.listen_address = "127.0.0.1:0", .host_names = {"build.lan"}},
                        make_routes(exporter_, {[] { return true; }, [] { return true; }}));
  const int here = (*server)->port();
  EXPECT_THAT(head(here, "/metrics", "evil.example"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(head(here, "/metrics", "localhost.evil.example:80"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(head(here, "/metrics", ""), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(head(here, "/-/healthy", "evil.example"), StartsWith("HTTP/1.1 200"));
  for (const char* host : {"127.0.0.1", "[::1]:80", "localhost:9871", "Build.lan:9871"}) {
    EXPECT_THAT(head(here, "/metrics", host), StartsWith("HTTP/1.1 200")) << host;
  }
  server =
      HttpServer::start({":0"}, make_routes(exporter_, {[] { return true; }, [] { return true; }}));
  const int everywhere = (*server)->port();
  EXPECT_THAT(head(everywhere, "/metrics", "prod-7.lan"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(head(everywhere, "/nothing", "prod-7.lan"), StartsWith("HTTP/1.1 403"));
}

TEST_F(HttpServerTest, NoOtherSiteMayFrameIt) {
  const auto server = serve();
  const std::string head = get(server->port(), "/-/ready").head;
  EXPECT_THAT(head, HasSubstr("X-Frame-Options: DENY\r\n"));
  EXPECT_THAT(head, HasSubstr("frame-ancestors 'none'"));
}

// ------------------------------------------------------------------- slow clients

UniqueFd slow_client(int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::send(fd.get(), "GET ", 4, MSG_NOSIGNAL), 4);
  return fd;
}

TEST_F(HttpServerTest, SlowClientsDoNotBlockOthers) {
  const auto stats = std::make_shared<ServerStats>();
  const auto server =
      HttpServer::start({.listen_address = "127.0.0.1:0", .stats = stats},
                        make_routes(exporter_, {[] { return true; }, [] { return true; }}));
  ASSERT_TRUE(server.ok());
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 300; ++i) {
    slow.push_back(slow_client((*server)->port()));
    if (i % 50 == 49) {
      EXPECT_THAT(get((*server)->port(), "/metrics").head, StartsWith("HTTP/1.1 200")) << i;
    }
  }
  EXPECT_GE(stats->http_cut_off, 300u - 128);
}

TEST_F(HttpServerTest, WaitingRequestsDoNotBlockOthers) {
  std::latch over(1);
  HttpRoutes routes = make_routes(exporter_, {[] { return true; }, [] { return true; }});
  std::atomic<int> waiting = 0;
  routes["/wait"] = [&](const HttpRequest&) {
    ++waiting;
    over.wait();
    return HttpResponse{};
  };
  auto server = HttpServer::start({.listen_address = "127.0.0.1:0"}, std::move(routes));
  ASSERT_TRUE(server.ok());
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 110; ++i) {
    clients.push_back(slow_client((*server)->port()));
    const std::string_view rest = "/wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
    EXPECT_EQ(::send(clients.back().get(), rest.data(), rest.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(rest.size()));
    while (waiting <= i) std::this_thread::yield();
  }
  EXPECT_THAT(get((*server)->port(), "/metrics").head, StartsWith("HTTP/1.1 200"));
  over.count_down();
}

TEST_F(HttpServerTest, OccasionalBytesAreNotARequest) {
  const auto server =
      HttpServer::start({.listen_address = "127.0.0.1:0", .idle_seconds = 1},
                        make_routes(exporter_, {[] { return true; }, [] { return true; }}));
  ASSERT_TRUE(server.ok());
  const UniqueFd client = slow_client((*server)->port());
  const auto began = std::chrono::steady_clock::now();
  char byte;
  do {
    (void)::send(client.get(), "/", 1, MSG_NOSIGNAL);
    ASSERT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
    const timeval soon{0, 200'000};
    ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
  } while (::recv(client.get(), &byte, 1, 0) < 0 && errno == EAGAIN);
}

// ---------------------------------------------------------------- web config

std::string bcrypt_of(const char* password) {
  crypt_data data{};
  return ::crypt_r(password, "$2b$04$abcdefghijklmnopqrstuu", &data);
}

std::string basic(const std::string& user_and_password) {
  return absl::StrCat("Authorization: Basic ", absl::Base64Escape(user_and_password), "\r\n");
}

TEST_F(HttpServerTest, AsksForAPassword) {
  const auto server = serve(dir_.write(
      "web.yml", absl::StrCat("basic_auth_users:\n  alice: ", bcrypt_of("s3cret"), "\n")));
  ASSERT_NE(server, nullptr);
  const Answer nobody = get(server->port(), "/metrics");
  EXPECT_THAT(nobody.head, StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(nobody.head, HasSubstr("WWW-Authenticate: Basic"));
  EXPECT_EQ(nobody.body.find("memprofd_"), std::string::npos);
  EXPECT_THAT(get(server->port(), "/nothing").head, StartsWith("HTTP/1.1 401"));
  for (const char* wrong : {"alice:wrong", "alice:", "bob:s3cret", "alice", ":", "alice:s3cret2"}) {
    EXPECT_THAT(get(server->port(), "/metrics", basic(wrong)).head, StartsWith("HTTP/1.1 401"))
        << wrong;
  }
  for (int i = 0; i < 2; ++i) {  // the second time from memory
    EXPECT_THAT(get(server->port(), "/metrics", basic("alice:s3cret")).head,
                StartsWith("HTTP/1.1 200"));
  }
}

TEST_F(HttpServerTest, HealthNeedsNoPassword) {
  const auto server = serve(dir_.write(
      "web.yml", absl::StrCat("basic_auth_users:\n  alice: ", bcrypt_of("s3cret"), "\n")));
  EXPECT_THAT(get(server->port(), "/-/healthy").head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get(server->port(), "/-/ready").head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get(server->port(), "/-/../metrics").head, StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpServerTest, ReloadsPasswords) {
  const auto config = [this](const char* password) {
    return dir_.write("web.yml",
                      absl::StrCat("basic_auth_users:\n  alice: ", bcrypt_of(password), "\n"));
  };
  const auto server = serve(config("old"));
  const auto head = [&](const char* user) {
    return get(server->port(), "/metrics", basic(user)).head;
  };
  EXPECT_THAT(head("alice:old"), StartsWith("HTTP/1.1 200"));
  config("new");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(server->reload().ok());
  EXPECT_THAT(head("alice:old"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(head("alice:new"), StartsWith("HTTP/1.1 200"));
  dir_.write("web.yml", "no such key: 1");
  EXPECT_EQ(server->reload().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(head("alice:new"), StartsWith("HTTP/1.1 200")) << "a bad file has changed something";
}

TEST_F(HttpServerTest, AReloadTakesNoPasswordsAwayThatAreNeeded) {
  const std::string config = dir_.write(
      "web.yml", absl::StrCat("basic_auth_users:\n  alice: ", bcrypt_of("s3cret"), "\n"));
  const auto server =
      HttpServer::start({.listen_address = ":0", .web_config_file = config, .controls = true},
                        make_routes(exporter_, {[] { return true; }, [] { return true; }}));
  ASSERT_TRUE(server.ok()) << server.status();
  dir_.write("web.yml", "");
  EXPECT_EQ((*server)->reload().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(get((*server)->port(), "/metrics").head, StartsWith("HTTP/1.1 401"));
}

TEST(BasicAuth, ForgetsAfterAWhile) {
  const std::string header = "Basic " + absl::Base64Escape("alice:s3cret");
  BasicAuth auth({{"alice", bcrypt_of("s3cret")}});
  const auto now = BasicAuth::Clock::now();
  EXPECT_TRUE(auth.allows(header, now));
  EXPECT_TRUE(auth.allows(header, now + std::chrono::seconds(59)));
  EXPECT_TRUE(auth.allows(header, now + std::chrono::seconds(3600)));
  EXPECT_FALSE(auth.allows("Basic !!!", now));
  EXPECT_FALSE(auth.allows("Bearer " + absl::Base64Escape("alice:s3cret"), now));
  EXPECT_FALSE(auth.allows("Basic " + std::string(100000, 'A'), now));
  EXPECT_FALSE(auth.allows("", now));
}

TEST(BasicAuth, ARememberedUserDoesNotWaitForHashes) {
  crypt_data data{};
  const std::string slow = ::crypt_r("s3cret", "$2b$11$abcdefghijklmnopqrstuu", &data);
  BasicAuth auth({{"alice", slow}});
  const std::string right = "Basic " + absl::Base64Escape("alice:s3cret");
  ASSERT_TRUE(auth.allows(right));
  EXPECT_EQ(BasicAuth::user_of(right), "alice");
  std::atomic<int> wrong_ones = 0;
  std::vector<std::jthread> attackers;
  for (int i = 0; i < 8; ++i) {
    attackers.emplace_back([&] {
      EXPECT_FALSE(auth.allows("Basic " + absl::Base64Escape("alice:wrong")));
      ++wrong_ones;
    });
  }
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(auth.allows(right));
  EXPECT_LT(wrong_ones, 8) << "the right one waited for all the wrong ones";
}

// An unknown user must cost as much as a known one, so its hash must be computable.
TEST(BasicAuth, UnknownUsersAreHashedToo) {
  crypt_data data{};
  const char* computed = ::crypt_r("x", kNobodyHash, &data);
  ASSERT_NE(computed, nullptr);
  EXPECT_THAT(computed, StartsWith("$2b$10$"));
}

TEST(WebConfig, RefusesWhatItDoesNotUnderstand) {
  const TempDir dir;
  const std::pair<const char*, const char*> cases[] = {
      {"tls_server_config: {cert_file: a}", "needs both"},
      {"tls_server_config: {cert_file: a, key_file: b}", "cannot read"},
      {"tls_server_config: {client_auth_type: RequireAnyClientCert}",
       "client_auth_type RequireAnyClientCert is not supported"},
      {"tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}", "client_auth_type"},
      {"tls_server_config: {cert_file: a, key_file: b, client_auth_type: "
       "RequireAndVerifyClientCert}",
       "client_ca_file"},
      {"tls_server_config: {min_version: TLS99}", "min_version TLS99"},
      {"http_server_config: {http2: true}", "http_server_config is not supported"},
      {"basic_auth_users: {alice: plaintext}", "password of alice is not a bcrypt hash"},
      {"[1, 2]", "is not a YAML mapping"},
      {"basic_auth_users: {alice: [1]}", "line 1"},
      {"a: b: c", "line 1"},
  };
  for (const auto& [yaml, expected] : cases) {
    const auto config = load_web_config(dir.write("web.yml", yaml));
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << yaml;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(expected)) << yaml;
  }
  EXPECT_THAT(std::string(load_web_config(dir.path("missing")).status().message()),
              HasSubstr("cannot be read"));
  EXPECT_TRUE(load_web_config(dir.write("empty.yml", "")).ok());
}

TEST_F(HttpServerTest, ServesTls) {
  if (::access("/usr/bin/openssl", X_OK) != 0 || ::access("/usr/bin/curl", X_OK) != 0) {
    GTEST_SKIP() << "no openssl or curl";
  }
  const std::string make_key =
      absl::StrCat("cd ", dir_.path(),
                   " && openssl req -x509 -newkey ec -pkeyopt "
                   "ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 "
                   "-subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null");
  ASSERT_EQ(::system(make_key.c_str()), 0);
  const auto server =
      serve(dir_.write("web.yml", "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"));
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(server->url(), StartsWith("https://"));
  const std::string fetch =
      absl::StrCat("curl -sS --max-time 10 --cacert ", dir_.path("cert.pem"),
                   " https://localhost:", server->port(), "/-/healthy > ", dir_.path("out"));
  EXPECT_EQ(::system(fetch.c_str()), 0);
  EXPECT_EQ(read_file(dir_.path("out")), "memprofd is healthy.\n");
}

TEST_F(HttpServerTest, SaysWhenTheCertificateIsUnusable) {
  dir_.write("cert.pem", "not a certificate");
  dir_.write("key.pem", "not a key");
  const auto server = HttpServer::start(
      {"127.0.0.1:0",
       dir_.write("web.yml", "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")},
      {});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("cert.pem: is not a PEM file"));
}

TEST_F(HttpServerTest, QueriesAreDecoded) {
  std::multimap<std::string, std::string> seen;
  HttpRoutes routes;
  routes["/q"] = [&](const HttpRequest& request) {
    seen = request.query;
    return HttpResponse{200, "text/plain", "ok"};
  };
  const auto server = HttpServer::start({"127.0.0.1:0", ""}, std::move(routes));
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(get((*server)->port(), "/q?pid=42&s=a%20b&flag&s=c").body, "ok");
  EXPECT_EQ(seen, (std::multimap<std::string, std::string>{
                      {"pid", "42"}, {"s", "a b"}, {"s", "c"}, {"flag", ""}}));
}

// ------------------------------------------------------- bodies of both directions

Answer post(int port, const std::string& path, const std::string& body,
            const std::string& headers = "") {
  return request(
      port, absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
                         "Content-Length: ", body.size(), "\r\n", headers, "\r\n", body));
}

TEST_F(HttpServerTest, PostsHaveRoutesAndBodies) {
  HttpRequest seen;
  HttpRoutes routes;
  routes["POST /p"] = [&](const HttpRequest& request) {
    seen = request;
    return HttpResponse{200, "text/plain", "done"};
  };
  const auto server = HttpServer::start({"127.0.0.1:0", ""}, std::move(routes));
  ASSERT_TRUE(server.ok());
  const int port = (*server)->port();
  EXPECT_EQ(post(port, "/p?a=1", "{\"pid\": 7}", "X-Own: Yes\r\n").body, "done");
  EXPECT_EQ(seen.body, "{\"pid\": 7}");
  EXPECT_EQ(seen.headers.at("x-own"), "Yes");
  EXPECT_EQ(seen.query.count("a"), 1u);
  const Answer get_it = get(port, "/p");
  EXPECT_THAT(get_it.head, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(get_it.head, HasSubstr("Allow: POST\r\n"));
  EXPECT_THAT(
      request(port, "OPTIONS /p HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").head,
      StartsWith("HTTP/1.1 405"))
      << "which is what refuses a browser's question for another site";
  EXPECT_THAT(get(port, "/POST /p").head, StartsWith("HTTP/1.1 40"));
  EXPECT_THAT(post(port, "/nothing", "").head, StartsWith("HTTP/1.1 404"));
}

// A client makes no series up: not by its paths, and not by its methods.
TEST_F(HttpServerTest, CountsRequestsByRouteMethodAndStatus) {
  const auto stats = std::make_shared<ServerStats>();
  HttpRoutes routes;
  routes["/slow"] = [](const HttpRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return HttpResponse{200, "text/plain", "here"};
  };
  routes["POST /control"] = [](const HttpRequest&) { return HttpResponse{409}; };
  const auto server = HttpServer::start({.listen_address = "127.0.0.1:0", .stats = stats}, routes);
  ASSERT_TRUE(server.ok());
  const int port = (*server)->port();
  get(port, "/slow");
  get(port, "/slow?x=1");
  post(port, "/control", "");
  get(port, "/control");
  for (const char* path : {"/a", "/b", "/c"}) get(port, path);
  request(port, "BREW /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const auto all = stats->http.all();
  const auto ended = [&](const char* handler, const char* method) {
    const auto found = all.find({{"handler", handler}, {"method", method}});
    return found == all.end() ? std::map<std::string, std::uint64_t>() : found->second.ended;
  };
  EXPECT_THAT(ended("/slow", "GET"), ElementsAre(Pair("200", 2)));
  EXPECT_THAT(ended("/control", "POST"), ElementsAre(Pair("409", 1)));
  EXPECT_THAT(ended("/control", "GET"), ElementsAre(Pair("405", 1)));
  EXPECT_THAT(ended("other", "GET"), ElementsAre(Pair("404", 3)));
  EXPECT_THAT(ended("/slow", "other"), ElementsAre(Pair("405", 1)));
  EXPECT_EQ(all.size(), 5u);
  EXPECT_GE(all.at({{"handler", "/slow"}, {"method", "GET"}}).durations.sum_seconds, 0.04);
}

// The route table has methods before paths: a path that looks like both matches neither.
TEST_F(HttpServerTest, AMethodInThePathIsNotAMethod) {
  std::atomic<int> called = 0;
  HttpRoutes routes;
  routes["POST /control"] = [&](const HttpRequest&) {
    ++called;
    return HttpResponse{200, "text/plain", "done"};
  };
  const auto server = HttpServer::start({"127.0.0.1:0", ""}, std::move(routes));
  ASSERT_TRUE(server.ok());
  EXPECT_THAT(get((*server)->port(), "POST%20/control").head, StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(called, 0);
}

TEST_F(HttpServerTest, BodiesHaveALimit) {
  std::size_t bytes = 0;
  HttpRoutes routes;
  routes["POST /p"] = [&](const HttpRequest& request) {
    bytes = request.body.size();
    return HttpResponse{};
  };
  const auto server = HttpServer::start({"127.0.0.1:0", ""}, std::move(routes));
  ASSERT_TRUE(server.ok());
  EXPECT_THAT(post((*server)->port(), "/p", std::string(64 * 1024, 'x')).head,
              StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(bytes, 64u * 1024);
  EXPECT_THAT(post((*server)->port(), "/p", std::string(64 * 1024 + 1, 'x')).head,
              StartsWith("HTTP/1.1 413"));
  EXPECT_EQ(bytes, 64u * 1024) << "not called";
}

TEST_F(HttpServerTest, AnswersInPiecesUntilAnEmptyOne) {
  HttpRoutes routes;
  std::atomic<int> alive = 0;
  routes["/p"] = [&](const HttpRequest&) {
    HttpResponse response{200, "text/plain"};
    ++alive;
    const std::shared_ptr<int> left(new int(3), [&](int* n) {
      delete n;
      --alive;
    });
    response.pieces = [left] {
      return --*left >= 0 ? std::string(100'000, static_cast<char>('a' + *left)) : "";
    };
    return response;
  };
  const auto server = HttpServer::start({"127.0.0.1:0", ""}, std::move(routes));
  ASSERT_TRUE(server.ok());
  const int port = (*server)->port();
  const auto ask = [&](const char* method) {  // HTTP/1.0: the body is not in chunks
    return request(port, absl::StrCat(method, " /p HTTP/1.0\r\nHost: localhost\r\n\r\n"));
  };
  EXPECT_EQ(ask("GET").body,
            std::string(100'000, 'c') + std::string(100'000, 'b') + std::string(100'000, 'a'));
  EXPECT_THAT(get(port, "/p").head, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_EQ(ask("HEAD").body, "");
  while (alive != 0) std::this_thread::yield();  // a time-out of the tests is the failure
}

// A recording of a program that does nothing, or a profile of the next minute.
TEST_F(HttpServerTest, HandlersMayTakeLongerThanClientsMayIdle) {
  const auto take_long = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1300)); };
  HttpRoutes routes;
  routes["/whole"] = [&](const HttpRequest&) {
    take_long();
    return HttpResponse{200, "text/plain", "whole"};
  };
  routes["/pieces"] = [&](const HttpRequest&) {
    HttpResponse response{200, "text/plain"};
    response.pieces = [&, left = std::make_shared<int>(2)]() -> std::string {
      if (--*left == 0) return "";
      take_long();
      return "piece";
    };
    return response;
  };
  const auto server =
      HttpServer::start({.listen_address = "127.0.0.1:0", .idle_seconds = 1}, std::move(routes));
  ASSERT_TRUE(server.ok());
  const int port = (*server)->port();
  std::jthread other([&] { EXPECT_EQ(get(port, "/whole").body, "whole"); });
  EXPECT_EQ(get(port, "/pieces").body, "5\r\npiece\r\n0\r\n\r\n");
}

// Reloads, and with them the signals of memprofd, wait for no answer that takes its time.
TEST_F(HttpServerTest, AReloadWaitsForNoClient) {
  std::promise<void> asked, over;
  HttpRoutes routes;
  routes["/long"] = [&, may_end = over.get_future().share()](const HttpRequest&) {
    asked.set_value();
    may_end.wait();
    return HttpResponse{200, "text/plain", "whole"};
  };
  const auto server = HttpServer::start({.listen_address = "127.0.0.1:0"}, std::move(routes));
  ASSERT_TRUE(server.ok());
  const int port = (*server)->port();
  auto answer = std::async(std::launch::async, [&] { return get(port, "/long").body; });
  asked.get_future().wait();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE((*server)->reload().ok());
  EXPECT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  over.set_value();
  EXPECT_EQ(answer.get(), "whole");
}

// A client must not take the beginning for the whole.
TEST_F(HttpServerTest, AnAbortedAnswerHasNoLastChunk) {
  HttpRoutes routes;
  routes["/broken"] = [](const HttpRequest&) {
    HttpResponse response{200, "text/plain"};
    response.pieces = [left = 2]() mutable -> std::optional<std::string> {
      if (--left == 0) return std::nullopt;
      return "begin";
    };
    return response;
  };
  const auto server = HttpServer::start({.listen_address = "127.0.0.1:0"}, std::move(routes));
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(get((*server)->port(), "/broken").body, "5\r\nbegin\r\n");
}

TEST_F(HttpServerTest, EndsWithWholeAnswers) {
  std::atomic<int> asked = 0;
  std::atomic<bool> end = false;
  HttpRoutes routes;
  routes["/p"] = [&](const HttpRequest&) {
    HttpResponse response{200, "text/plain"};
    response.pieces = [&]() -> std::string {
      if (asked++ == 0) return "begin ";
      while (!end) std::this_thread::yield();
      return asked == 2 ? "end" : "";
    };
    return response;
  };
  auto server = HttpServer::start({"127.0.0.1:0", ""}, std::move(routes));
  ASSERT_TRUE(server.ok());
  Answer answer;
  std::jthread client([&, port = (*server)->port()] {
    answer = request(port, "GET /p HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  });
  while (asked < 2) std::this_thread::yield();
  std::jthread ending([&] { end = true; });
  server->reset();
  client.join();
  EXPECT_THAT(answer.body, HasSubstr("end"));
  EXPECT_THAT(answer.body, ::testing::EndsWith("\r\n0\r\n\r\n")) << "the last chunk";
}

TEST_F(HttpServerTest, ControlNeedsPasswordsOrThisMachine) {
  for (const char* address : {":0", "0.0.0.0:0", "[::]:0"}) {
    const auto server = HttpServer::start({address, "", true}, {});
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(server.status().message()), HasSubstr("--web.config.file"));
  }
  EXPECT_TRUE(HttpServer::start({"localhost:0", "", true}, {}).ok());
  EXPECT_TRUE(HttpServer::start({"127.0.0.2:0", "", true}, {}).ok());
  const std::string users = dir_.write(
      "web.yml", absl::StrCat("basic_auth_users:\n  alice: ", bcrypt_of("s3cret"), "\n"));
  EXPECT_TRUE(HttpServer::start({":0", users, true}, {}).ok());
}

TEST(Gzip, RoundTrips) {
  const std::string text(100000, 'x');
  EXPECT_LT(gzip_compress(text).size(), 1000u);
  EXPECT_EQ(gunzip(gzip_compress(text)), text);
  EXPECT_EQ(gunzip(gzip_compress("")), "");
}

}  // namespace
}  // namespace memprofd
