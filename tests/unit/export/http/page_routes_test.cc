// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/page_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <nlohmann/json.hpp>

namespace memprofd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

HttpResponse get(const std::string& path, bool control_allowed = false) {
  HttpRoutes routes;
  ServerFacts facts;
  facts.version = {"1.2.3", "v1.2.2-7-gabc"};
  facts.http_control = control_allowed;
  facts.sampling_rate = 1e-5;
  facts.max_streams = 32;
  add_web_page(facts, routes);
  return routes.at(path)({path, {}});
}

TEST(WebPage, IsHtmlThatLoadsOnlyWhatIsServedHere) {
  const HttpResponse page = get("/");
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, StartsWith("<!doctype html>"));
  const RE2 reference(R"re((?:src|href)="(/[^"]*\.(?:js|css))")re");
  re2::StringPiece rest(page.body);
  std::string path;
  int loaded = 0;
  for (; RE2::FindAndConsume(&rest, reference, &path); ++loaded) {
    EXPECT_FALSE(get(path).body.empty()) << path;
  }
  EXPECT_EQ(loaded, 2);
}

TEST(WebPage, NamesNoOtherMachine) {
  for (const char* path : {"/", "/page.css"}) {
    EXPECT_THAT(get(path).body, Not(HasSubstr("//"))) << path;
  }
  EXPECT_THAT(get("/").body, HasSubstr("default-src 'none'"));
}

TEST(WebPage, TypesAreWhatBrowsersInsistOn) {
  EXPECT_EQ(get("/page.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/page.css").content_type, "text/css; charset=utf-8");
}

TEST(WebPage, GetsTheVersionAndItsRights) {
  const HttpResponse answer = get("/api/v1/server");
  EXPECT_EQ(answer.content_type, "application/json");
  const auto info = nlohmann::json::parse(answer.body);
  EXPECT_EQ(info["version"], "1.2.3");
  EXPECT_EQ(info["revision"], "v1.2.2-7-gabc");
  EXPECT_EQ(info["api_version"], "v1");
  EXPECT_EQ(info["control"], false);
  EXPECT_EQ(info["sampling_rate"], 1e-5);
  EXPECT_GE(info["uptime_seconds"], 0.0);
  EXPECT_NE(info["kernel_release"], "");
  EXPECT_EQ(info["limits"]["standard_page_rows"], 100);
  EXPECT_EQ(info["limits"]["max_page_rows"], 1000);
  EXPECT_EQ(info["limits"]["max_page_bytes"], "2097152");
  EXPECT_EQ(info["limits"]["kept_answers_bytes"], "16777216");
  EXPECT_EQ(info["limits"]["kept_answer_seconds"], 60);
  EXPECT_EQ(info["limits"]["max_piece_bytes"], "1048576");
  EXPECT_EQ(info["limits"]["max_streams"], 32);
  EXPECT_EQ(nlohmann::json::parse(get("/api/v1/server", true).body)["control"], true);
}

}  // namespace
}  // namespace memprofd
