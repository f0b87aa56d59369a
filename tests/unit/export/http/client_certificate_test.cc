// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/client_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "daemon/export/http/http_server.h"
#include "tests/kit/temp_dir.h"
#include "tests/unit/export/certificates.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The hash of "s3cret".
constexpr char kAlice[] =
    "basic_auth_users: {alice: $2b$04$abcdefghijklmnopqrstuuLZYjhNQAOdpbzt4WxWlUHjv1wsyH5DG}\n";

class ClientCertificateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_openssl() || ::access("/usr/bin/curl", X_OK) != 0) {
      GTEST_SKIP() << "no openssl or curl";
    }
    testing::Certificates certificates(dir_.path());
    certificates.sign("localhost");
    certificates.sign("ops", "clientAuth");
    certificates.sign("looker", "clientAuth");
    certificates.sign("server", "serverAuth");
    certificates.sign_itself("stranger");
    dir_.write("clients.pem", read_file(dir_.path("ca.pem")));
    options_.web_config_file = config("RequireAndVerifyClientCert");
    options_.controllers = {"ops"};
  }
  std::string config(const std::string& type, const std::string& more = "") const {
    return dir_.write("web.yml",
                      absl::StrCat("tls_server_config: {cert_file: localhost.pem, "
                                   "key_file: localhost.key, client_ca_file: clients.pem, "
                                   "client_auth_type: ",
                                   type, "}\n", more));
  }
  void start() {
    auto server = HttpServer::start(
        options_,
        {{"/who",
          [](const HttpRequest& http) {
            return HttpResponse{.body = absl::StrCat(http.caller, " ",
                                                     http.may_control ? "controls" : "asks", "\n")};
          }},
         {"/-/healthy", [](const HttpRequest&) { return HttpResponse{.body = "healthy\n"}; }}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Status and body of an answer to who has the certificate of that name.
  std::string ask(const std::string& name, const std::string& path = "/who",
                  const std::string& more = "") const {
    const std::string own =
        name.empty() ? "" : absl::StrCat("--cert ", name, ".pem --key ", name, ".key ");
    const std::string command = absl::StrCat(
        "cd ", dir_.path(), " && curl -sS --max-time 60 --cacert ca.pem -w '%{http_code}\n' ", own,
        more, " https://localhost:", server_->port(), path, " > out 2>&1");
    (void)!::system(command.c_str());
    return read_file(dir_.path("out"));
  }

  TempDir dir_;
  HttpServerOptions options_{.listen_address = "127.0.0.1:0"};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(ClientCertificateTest, SaysWhoAsksAndWhoControls) {
  start();
  EXPECT_THAT(ask("ops"), StartsWith("ops at 127.0.0.1 port "));
  EXPECT_THAT(ask("ops"), HasSubstr(" controls\n200"));
  EXPECT_THAT(ask("looker"), HasSubstr(" asks\n200"));
}

TEST_F(ClientCertificateTest, AClientWithoutATrustedOneIsRefused) {
  start();
  EXPECT_THAT(ask(""), HasSubstr("certificate required"));
  EXPECT_THAT(ask(""), HasSubstr("403"));
  for (const char* name : {"stranger", "server"}) {
    EXPECT_THAT(ask(name), HasSubstr("403")) << name;
    EXPECT_THAT(ask(name), HasSubstr("client_ca_file")) << name;
  }
  EXPECT_EQ(ask("", "/-/healthy"), "healthy\n200\n");
}

TEST_F(ClientCertificateTest, MayBeGivenOrNot) {
  options_.web_config_file = config("VerifyClientCertIfGiven");
  start();
  EXPECT_THAT(ask(""), HasSubstr(" asks\n200"));
  EXPECT_THAT(ask("", "/who", "-H 'Host: evil.example'"), HasSubstr("403"));
  EXPECT_THAT(ask("ops", "/who", "-H 'Host: any.name'"), HasSubstr(" controls\n200"));
  EXPECT_THAT(ask("stranger"), HasSubstr("403"));
}

TEST_F(ClientCertificateTest, ComesBesidePasswords) {
  options_.web_config_file = config("RequireAndVerifyClientCert", kAlice);
  options_.controllers = {"alice"};
  start();
  EXPECT_THAT(ask("ops"), HasSubstr("401"));
  EXPECT_THAT(ask("", "/who", "-u alice:s3cret"), HasSubstr("403"));
  EXPECT_THAT(ask("looker", "/who", "-u alice:s3cret"), StartsWith("alice at "));
  EXPECT_THAT(ask("looker", "/who", "-u alice:s3cret"), HasSubstr(" controls\n200"));
}

TEST_F(ClientCertificateTest, AReloadAsksForThem) {
  options_.web_config_file = dir_.write("web.yml",
                                        "tls_server_config: {cert_file: localhost.pem, key_file: "
                                        "localhost.key}\n");
  start();
  EXPECT_THAT(ask(""), HasSubstr("200"));
  (void)config("RequireAndVerifyClientCert");
  EXPECT_TRUE(server_->reload().ok());
  EXPECT_THAT(ask(""), HasSubstr("403"));
  EXPECT_THAT(ask("ops"), HasSubstr("200"));
  dir_.write("clients.pem", "nonsense");
  EXPECT_THAT(std::string(server_->reload().message()), HasSubstr("clients.pem"));
  EXPECT_THAT(ask(""), HasSubstr("403"));
}

// If other machines can reach it, controlling clients must be identified.
TEST_F(ClientCertificateTest, SufficeToControlFromOtherMachines) {
  options_.listen_address = "0.0.0.0:0";
  options_.controls = true;
  start();
  options_.web_config_file = config("VerifyClientCertIfGiven");
  EXPECT_EQ(HttpServer::start(options_, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace memprofd
