// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/web_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

namespace memprofd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

HttpResponse get(const std::string& path, bool control_allowed = false) {
  HttpRoutes routes;
  add_web_page("1.2.3", control_allowed, routes);
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

TEST(WebPage, IsToldTheVersionAndWhatItMayDo) {
  const HttpResponse answer = get("/api/v1/server");
  EXPECT_EQ(answer.content_type, "application/json");
  EXPECT_EQ(answer.body, "{\"version\": \"1.2.3\", \"control\": false}\n");
  EXPECT_THAT(get("/api/v1/server", true).body, HasSubstr("\"control\": true"));
}

}  // namespace
}  // namespace memprofd
