// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/control_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/export/http/api_routes.h"
#include "daemon/model/pause_refusal.h"
#include "daemon/util/net_address.h"
#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using testing::fixed_target;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Json = nlohmann::json;

class ControlRoutesTest : public ::testing::Test {
 protected:
  ControlRoutesTest() { add_control_routes(parts_, true, routes_); }

  // The request as the page sends it.
  static HttpRequest request(std::string body) {
    HttpRequest out;
    out.headers = {{"host", "127.0.0.1:9871"},
                   {"origin", "http://127.0.0.1:9871"},
                   {"content-type", "application/json"},
                   {"x-memprofd-control", "1"}};
    out.body = std::move(body);
    return out;
  }
  HttpResponse post(const std::string& what, const HttpRequest& request) {
    return routes_.at("POST /api/v1/" + what)(request);
  }
  HttpResponse post(const std::string& what, std::string body) {
    return post(what, request(std::move(body)));
  }
  void expect_refusal(int status, const std::string& says, const HttpResponse& response) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_THAT(response.body, HasSubstr(says));
    EXPECT_EQ(response.body.find('\n'), response.body.size() - 1) << "one line";
    EXPECT_THAT(service_.calls(), IsEmpty());
  }
  // With one header changed; "" removes it.
  HttpRequest with(const std::string& name, const std::string& value) {
    HttpRequest out = request(R"({"pid": 4242})");
    if (value.empty()) {
      out.headers.erase(name);
    } else {
      out.headers[name] = value;
    }
    return out;
  }

  testing::FakeService service_{{fixed_target()}};
  ControlService control_{service_};
  QueryService queries_{service_};
  TraceService traces_{service_, {}};
  StopSignal stop_;
  HeapAnalyser heaps_;
  HeapService taken_{heaps_, control_, queries_};
  KeptHeaps kept_{heaps_, service_};
  ValuesService values_{service_};
  const ControlParts parts_{control_, taken_, kept_, values_, service_, stop_};
  HttpRoutes routes_;
};

TEST_F(ControlRoutesTest, DoWhatTheyAreAskedAndAnswerTheTarget) {
  const HttpResponse rate = post("rate", R"({"pid": 4242, "sampling_rate": 0.0001})");
  EXPECT_EQ(rate.status, 200) << rate.body;
  EXPECT_EQ(rate.content_type, "application/json");
  EXPECT_EQ(Json::parse(rate.body)["target"]["pid"], 4242);
  EXPECT_EQ(post("detach", R"({"pid": 4242})").status, 200);
  const HttpResponse attach = post("attach", R"({"pid": 99, "sampling_rate": 0.01})");
  EXPECT_EQ(Json::parse(attach.body)["target"]["sampling_rate"], 0.01);
  EXPECT_EQ(post("attach", R"({"pid": 99, "max_overhead": 0.02})").status, 200);
  EXPECT_EQ(post("rate", R"({"pid": 99, "max_overhead": 0})").status, 200);
  EXPECT_THAT(service_.calls(),
              ElementsAre("rate 4242 0.0001", "detach 4242", "attach 99 0.01 0", "attach 99 0 0",
                          "max_overhead 0.02", "rate 99 0", "max_overhead 0"));
}

TEST_F(ControlRoutesTest, SayWhatFailed) {
  service_.fail_with(absl::FailedPreconditionError("pid 4242 is not an OCaml program"));
  const HttpResponse refused = post("attach", R"({"pid": 4242})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.body, "pid 4242 is not an OCaml program\n");
  service_.fail_with(absl::NotFoundError("no such process"));
  EXPECT_EQ(post("detach", R"({"pid": 7})").status, 404);
  service_.fail_with(absl::PermissionDeniedError("no"));
  EXPECT_EQ(post("detach", R"({"pid": 7})").status, 403);
}

TEST_F(ControlRoutesTest, RefuseWhatMakesNoSense) {
  expect_refusal(400, "positive", post("attach", R"({"pid": 0})"));
  expect_refusal(400, "positive", post("rate", "{}"));
  expect_refusal(400, "2", post("rate", R"({"pid": 4242, "sampling_rate": 2})"));
  expect_refusal(400, "AttachRequest", post("attach", ""));
  expect_refusal(400, "AttachRequest", post("attach", "pid=4242"));
  expect_refusal(400, "AttachRequest", post("attach", R"({"pid": 4242, "speed": 3})"));
  expect_refusal(400, "DetachRequest", post("detach", R"({"pid": "all"})"));
  expect_refusal(400, "DetachRequest", post("detach", std::string(60'000, '[')));
}

TEST_F(ControlRoutesTest, RefuseOtherSites) {
  for (const char* what : {"attach", "detach", "rate"}) {
    expect_refusal(403, "X-Memprofd-Control", post(what, with("x-memprofd-control", "")));
    expect_refusal(400, "application/json", post(what, with("content-type", "")));
    expect_refusal(400, "application/json", post(what, with("content-type", "text/plain")));
    expect_refusal(403, "evil.example", post(what, with("origin", "http://evil.example")));
    expect_refusal(403, "null", post(what, with("origin", "null")));
    expect_refusal(403, "own page", post(what, with("origin", "http://127.0.0.1:8000")));
  }
}

// Covers every route, so that a new one cannot be forgotten.
TEST_F(ControlRoutesTest, EachPostIsRefusedToOtherSites) {
  add_api_routes(queries_, traces_, stop_, routes_);
  int posts = 0;
  for (const auto& [path, handler] : routes_) {
    if (!path.starts_with("POST ")) continue;
    ++posts;
    for (const auto& forged : {with("x-memprofd-control", ""), with("origin", "null"),
                               with("origin", "http://evil.example")}) {
      SCOPED_TRACE(path);
      expect_refusal(403, "", handler(forged));
    }
  }
  EXPECT_EQ(posts, 19);
}

TEST_F(ControlRoutesTest, NoGetHasEffects) {
  add_api_routes(queries_, traces_, stop_, routes_);
  for (const auto& [path, handler] : routes_) {
    if (path.starts_with("POST ")) continue;
    HttpRequest http = request("");
    http.query = {{"pid", "4242"}};
    EXPECT_LT(handler(http).status, 500) << path;
    EXPECT_THAT(service_.calls(), IsEmpty()) << path;
    EXPECT_THAT(traces_.list().traces(), IsEmpty()) << path;
  }
}

TEST_F(ControlRoutesTest, AreRefusedToClientsThatMayOnlyAsk) {
  HttpRequest http = request(R"({"pid": 4242, "site": "x", "name": "x", "base": "x"})");
  http.caller = "looker at 10.0.0.7 port 4711";
  http.may_control = false;
  for (const auto& [path, handler] : routes_) {
    SCOPED_TRACE(path);
    if (path.starts_with("POST ")) expect_refusal(403, "looker at 10.0.0.7", handler(http));
  }
}

TEST_F(ControlRoutesTest, ThePageOfANameThatIsAllowedIsTheirOwn) {
  HttpRequest named = with("host", "profiler.example");
  named.headers["origin"] = "https://profiler.example";
  EXPECT_EQ(post("detach", named).status, 200);
  named.headers["origin"] = "https://evil.example";
  EXPECT_EQ(post("detach", named).status, 403);
}

TEST_F(ControlRoutesTest, ASnapshotComesInPieces) {
  const HttpResponse response = post("snapshot", R"({"pid": 4242, "max_pause_seconds": 0.25})");
  EXPECT_EQ(200, response.status) << response.body;
  EXPECT_EQ("memprofd-4242.heap", response.file_name);
  std::vector<std::string> pieces;
  for (auto piece = response.pieces(); piece != ""; piece = response.pieces()) {
    ASSERT_TRUE(piece);
    pieces.push_back(*piece);
  }
  EXPECT_THAT(pieces, ElementsAre("one", "two"));
  EXPECT_THAT(service_.calls(), ElementsAre("snapshot 4242 0.25"));
}

TEST_F(ControlRoutesTest, ASnapshotThatIsRefusedSaysWhy) {
  service_.fail_with(absl::ResourceExhaustedError("pid 4242 has no room"));
  const HttpResponse response = post("snapshot", R"({"pid": 4242})");
  EXPECT_EQ("pid 4242 has no room\n", response.body);
  EXPECT_FALSE(response.pieces);
  EXPECT_EQ(429, response.status);
  EXPECT_EQ(403, post("snapshot", with("x-memprofd-control", "")).status);
  EXPECT_EQ(400, post("snapshot", R"({"pid": 4242, "max_pause_seconds": -1})").status);
}

// Header fields, so that clients need not parse the text.
TEST_F(ControlRoutesTest, APauseThatIsTooLongSaysHowLongWouldDo) {
  service_.fail_with(with_refusal(absl::OutOfRangeError("too long"),
                                  {.predicted_seconds = 0.08, .allowed_seconds = 0.05}));
  for (const char* route : {"snapshot", "heap"}) {
    const HttpResponse response = post(route, R"({"pid": 4242})");
    EXPECT_EQ(409, response.status) << route;
    EXPECT_THAT(response.fields, ElementsAre(Pair("Memprofd-Predicted-Pause-Seconds", "0.08"),
                                             Pair("Memprofd-Allowed-Pause-Seconds", "0.05"),
                                             Pair("Memprofd-Enough-Pause-Seconds", "0.16")))
        << route;
  }
  service_.fail_with(absl::OutOfRangeError("too long"));
  EXPECT_THAT(post("snapshot", R"({"pid": 4242})").fields, IsEmpty());
}

// Data sent before the failure is not a file, and must not look like one.
TEST_F(ControlRoutesTest, WhyOfWhatIsNotAliveStopsNoProgram) {
  const HttpResponse none = post("why", R"({"pid": 4242, "site": "Nowhere"})");
  expect_refusal(404, "a callstack that matches \"Nowhere\"", none);
  expect_refusal(400, "site", post("why", R"({"pid": 4242, "site": "("})"));
  expect_refusal(404, "pid 1 is not profiled", post("why", R"({"pid": 1, "site": "x"})"));
  expect_refusal(403, "", post("why", with("x-memprofd-control", "")));
}

TEST_F(ControlRoutesTest, ASnapshotThatEndsInTheMiddleIsBrokenOff) {
  service_.break_snapshots_with(absl::AbortedError("pid 4242 ended"));
  const HttpResponse response = post("snapshot", R"({"pid": 4242})");
  EXPECT_EQ(200, response.status);
  EXPECT_EQ("one", response.pieces());
  EXPECT_EQ(std::nullopt, response.pieces());
}

TEST_F(ControlRoutesTest, ASnapshotEndsWithMemprofdOrItsClient) {
  (void)post("snapshot", R"({"pid": 4242})");  // the response is gone at once, and takes nothing
  stop_.stop();
  const HttpResponse response = post("snapshot", R"({"pid": 4242})");
  EXPECT_EQ("one", response.pieces());
  EXPECT_EQ(std::nullopt, response.pieces());
}

TEST_F(ControlRoutesTest, WhichHeapsAreKeptIsAQuestion) {
  HttpRequest http;
  http.query = {{"pid", "4242"}};
  const HttpResponse list = routes_.at("/api/v1/heaps")(http);
  EXPECT_EQ(200, list.status);
  EXPECT_EQ("", Json::parse(list.body)["directory"]);
  EXPECT_THAT(Json::parse(list.body)["heaps"], IsEmpty());
  http.query = {{"name", "x"}};
  EXPECT_EQ(400, routes_.at("/api/v1/heaps")(http).status);
}

TEST_F(ControlRoutesTest, WithoutADirectoryNoHeapIsKept) {
  expect_refusal(409, "--snapshot.directory", post("keep_heap", R"({"pid": 4242})"));
  expect_refusal(409, "--snapshot.directory",
                 post("compare_heaps", R"({"base": "a", "other": "b"})"));
  expect_refusal(409, "--snapshot.directory", post("find_waste", R"({"name": "a"})"));
  expect_refusal(403, "", post("find_waste", with("x-memprofd-control", "")));
  expect_refusal(409, "--snapshot.directory", post("find_garbage", R"({"name": "a"})"));
  expect_refusal(403, "", post("find_garbage", with("x-memprofd-control", "")));
}

TEST_F(ControlRoutesTest, ReportWhereResidentMemoryIs) {
  const HttpResponse answer = post("rss", R"({"pid": 4242, "owners": true})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json told = Json::parse(answer.body);
  EXPECT_EQ(told["rss_bytes"], "8192");
  EXPECT_EQ(told["parts"][1]["name"], "/bin/server");
  EXPECT_EQ(told["owners"][0]["identifier"], "_zip");
  EXPECT_THAT(service_.calls(), ElementsAre("rss 4242 owners"));
  EXPECT_EQ(post("rss", R"({"pid": 0})").status, 400);
  EXPECT_EQ(post("rss", with("x-memprofd-control", "")).status, 403);
}

TEST_F(ControlRoutesTest, ToolsHaveNoOrigin) {
  EXPECT_EQ(post("detach", with("origin", "")).status, 200);
  EXPECT_EQ(post("detach", with("content-type", "application/json; charset=utf-8")).status, 200);
}

TEST_F(ControlRoutesTest, AreOffUnlessAllowed) {
  HttpRoutes off;
  add_control_routes(parts_, false, off);
  for (const char* what :
       {"attach", "detach", "rate", "snapshot", "heap", "why", "keep_heap", "compare_heaps",
        "find_waste", "find_garbage", "find_largest", "find_assertions", "rss"}) {
    expect_refusal(403, "--web.enable-control",
                   off.at(std::string("POST /api/v1/") + what)(request(R"({"pid": 4242})")));
  }
}

TEST(NetAddress, RecognizesNamesThatOthersCannotForge) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:9871", "10.1.2.3:80", "[::1]:9871", "[fe80::1]",
                           "localhost", "LocalHost:9871"}) {
    EXPECT_TRUE(is_local_name(host)) << host;
  }
  for (const char* host :
       {"", ":", "evil.example", "localhost.evil.example:1", "127.0.0.1.evil", "[", "[]", "[::1",
        "::1", "127.0.0.1@evil", "2130706433", "[::1].evil.com", "[::1]evil", "[::1]:80.evil",
        "[::1]9871", "127.0.0.1:evil", "localhost:1@evil"}) {
    EXPECT_FALSE(is_local_name(host)) << host;
  }
}

TEST(NetAddress, KnowsWhatOnlyThisMachineReaches) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_TRUE(is_loopback({host, 1})) << host;
  }
  for (const char* host : {"", "0.0.0.0", "::", "10.0.0.1", "128.0.0.1"}) {
    EXPECT_FALSE(is_loopback({host, 1})) << host;
  }
}

}  // namespace
}  // namespace memprofd
