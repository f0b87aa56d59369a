// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/api_routes.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/util/clock.h"
#include "daemon/util/fd.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/recording.h"

namespace memprofd {
namespace {

using ::testing::EndsWith;
using testing::FakeService;
using testing::fixed_target;
using ::testing::HasSubstr;
using testing::kSampleBytes;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;
using Params = std::multimap<std::string, std::string>;

// Ten seconds in which callstack 1 leaks a sample each.
std::shared_ptr<ProfileSnapshot> recorded_target() {
  Recording recording;
  recording.symbolizer = testing::fixed_symbolizer();
  for (std::uint64_t second = 1; second <= 10; ++second) {
    recording.alloc(second, 1);
    recording.advance(kSecond);
  }
  auto target = std::make_shared<ProfileSnapshot>(recording.snapshot());
  target->info.pid = 77;
  return target;
}

// Snapshots are of now, as a daemon's are.
std::shared_ptr<ProfileSnapshot> target_of_now(int pid) {
  auto target = fixed_target(pid);
  target->time_ns = realtime_ns() + 3600 * kSecond;
  return target;
}

class ApiRoutesTest : public ::testing::Test {
 protected:
  ApiRoutesTest() { add_api_routes(queries_, traces_, stop_, routes_); }

  HttpResponse get(const std::string& path, Params query = {}) {
    const auto route = routes_.find(path);
    if (route == routes_.end()) return {404, "", "no route", ""};
    return route->second({path, std::move(query)});
  }
  Json json(const std::string& path, Params query = {}) {
    const HttpResponse response = get(path, std::move(query));
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "application/json");
    return Json::parse(response.body, nullptr, false);
  }
  void expect_refusal(int status, const std::string& path, Params query) {
    const HttpResponse response = get(path, std::move(query));
    EXPECT_EQ(response.status, status) << path << ": " << response.body;
    EXPECT_EQ(response.content_type, "text/plain; charset=utf-8");
    EXPECT_EQ(response.file_name, "");
    EXPECT_EQ(response.body.find('\n'), response.body.size() - 1) << "one line";
  }

  FakeService service_{{fixed_target(), fixed_target(4300), recorded_target()}};
  QueryService queries_{service_, std::make_shared<AnswerPages>(),
                        [this] { return service_.discovered(); }};
  TraceService traces_{service_, {}};
  StopSignal stop_;
  HttpRoutes routes_;
};

TEST_F(ApiRoutesTest, Targets) {
  const Json answer = json("/api/v1/targets");
  ASSERT_EQ(answer["targets"].size(), 3u);
  EXPECT_EQ(answer["targets"][0]["pid"], 4242);
  EXPECT_EQ(answer["targets"][0]["runtime_version"], "4.13.1");
  EXPECT_EQ(answer["targets"][0]["state"], "TARGET_STATE_SAMPLING");
  EXPECT_EQ(answer["targets"][0]["live"]["bytes"], 10403 * kSampleBytes);
  EXPECT_TRUE(answer["targets"][0].contains("live_samples")) << "zero ones too";
}

TEST_F(ApiRoutesTest, ProgramsThatWereDiscoveredOnDemand) {
  service_.found.add({.pid = 7,
                      .comm = "report",
                      .exe = "/usr/bin/ocamlrun",
                      .outcome = Discovery::kBytecode,
                      .reason = "runs bytecode",
                      .rule = "ocaml*"});
  service_.found.ended_early = 2;
  EXPECT_TRUE(json("/api/v1/targets")["discovered"].empty());
  const Json answer = json("/api/v1/targets", {{"discovered", "true"}});
  ASSERT_EQ(answer["discovered"].size(), 4u) << "targets are among them";
  const Json& program = answer["discovered"][0];
  EXPECT_EQ(program["pid"], 7);
  EXPECT_EQ(program["outcome"], "DISCOVERY_OUTCOME_BYTECODE");
  EXPECT_EQ(program["reason"], "runs bytecode");
  EXPECT_EQ(program["rule"], "ocaml*");
  EXPECT_EQ(answer["discovered"][3]["outcome"], "DISCOVERY_OUTCOME_PROFILED");
  EXPECT_EQ(answer["ended_early"], "2");
  expect_refusal(400, "/api/v1/targets", {{"nonsense", "1"}});
}

TEST_F(ApiRoutesTest, Sites) {
  const Json answer =
      json("/api/v1/sites",
           {{"pid", "4242"}, {"order", "allocated"}, {"limit", "1"}, {"with_callstacks", ""}});
  ASSERT_EQ(answer["sites"].size(), 1u);
  const Json& site = answer["sites"][0];
  EXPECT_EQ(site["function"], "Parser.token");
  EXPECT_EQ(site["file"], "bin/parser.ml");
  EXPECT_EQ(site["line"], 112);
  EXPECT_EQ(site["samples"], "250000") << "64 bits are strings, as proto3 says";
  EXPECT_EQ(site["allocated"]["bytes"], 250000 * kSampleBytes);
  EXPECT_GT(site["allocated"]["bytes_stderr"], 0);
  EXPECT_EQ(site["callstack"][2]["function"], "Server.loop");
  EXPECT_EQ(answer["groups"], 4);
  EXPECT_EQ(answer["target"]["pid"], 4242);
  EXPECT_EQ(answer["total"]["samples"], "274003");
}

TEST_F(ApiRoutesTest, Diff) {
  const Json answer = json("/api/v1/diff", {{"base.pid", "4242"},
                                            {"other.pid", "4300"},
                                            {"base.filter.pattern", "Cache"},
                                            {"other.filter.pattern", "Parser"},
                                            {"order", "allocated"}});
  ASSERT_EQ(answer["diffs"].size(), 2u);
  EXPECT_EQ(answer["diffs"][0]["other"]["function"], "Parser.token");
  EXPECT_EQ(answer["diffs"][0]["change"], 250000 * kSampleBytes);
  EXPECT_EQ(answer["total"]["change"], 236000 * kSampleBytes);
  expect_refusal(400, "/api/v1/diff", {{"pid", "4242"}});
}

TEST_F(ApiRoutesTest, Callers) {
  const Json answer =
      json("/api/v1/callers", {{"pid", "4242"}, {"function", "^Request"}, {"order", "allocated"}});
  EXPECT_EQ(answer["callers"][0]["function"], "Server.loop");
  EXPECT_EQ(answer["callees"].size(), 3u);
  EXPECT_EQ(answer["total"]["samples"], "274000");
}

TEST_F(ApiRoutesTest, HistoryAndLeaks) {
  const Json history = json("/api/v1/history", {{"pid", "77"}, {"measure", "live"}});
  ASSERT_GE(history["points"].size(), 10u);
  EXPECT_TRUE(history["points"][0].contains("time_unix_ns"));
  ASSERT_EQ(history["series"].size(), 1u);
  EXPECT_EQ(history["series"][0]["group"]["function"], "Sessions.remember");
  EXPECT_EQ(history["series"][0]["values"].size(), history["points"].size());
  EXPECT_EQ(history["series"][0]["values"].back(), 10 * 800.0);
  const Json leaks = json("/api/v1/leaks", {{"pid", "77"}});
  ASSERT_EQ(leaks["leaks"].size(), 1u);
  EXPECT_EQ(leaks["leaks"][0]["site"]["function"], "Sessions.remember");
  EXPECT_GT(leaks["leaks"][0]["growth_bytes"], 0);
  EXPECT_GT(leaks["leaks"][0]["confidence"], 0.9);
  expect_refusal(400, "/api/v1/history", {{"pid", "77"}, {"measure", "lifetime"}});
}

TEST_F(ApiRoutesTest, ProfileFormats) {
  const struct {
    const char *format, *content_type, *file_name, *begin;
  } formats[] = {
      {"pprof", "application/octet-stream", "server_exe-4242.pb.gz", "\x1f\x8b"},
      {"collapsed", "text/plain; charset=utf-8", "server_exe-4242.collapsed", "0xbeef 24000\n"},
      {"speedscope", "application/json", "server_exe-4242.speedscope.json", "{"},
      {"html", "text/html; charset=utf-8", "server_exe-4242.html", "<!"},
      {"flame_json", "application/json", "server_exe-4242.flame.json", "{"},
  };
  for (const auto& expected : formats) {
    const HttpResponse response =
        get("/api/v1/profile", {{"pids", "4242"}, {"format", expected.format}});
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, expected.content_type);
    EXPECT_EQ(response.file_name, expected.file_name);
    EXPECT_THAT(response.body.substr(0, 100), StartsWith(expected.begin));
    if (response.content_type == "application/json") {
      EXPECT_TRUE(Json::accept(response.body)) << expected.format;
    }
  }
  EXPECT_EQ(get("/api/v1/profile").file_name, "memprofd.pb.gz") << "all targets";
}

TEST_F(ApiRoutesTest, FileNamesAreHarmless) {
  for (const char* comm : {"a\r\nSet-Cookie: x=1", "\"; filename=\"evil", "../../etc/passwd",
                           "caf\xC3\xA9", "\xFF", ""}) {
    auto target = fixed_target(7);
    target->info.comm = comm;
    service_.set({target});
    const HttpResponse response = get("/debug/pprof/heap", {{"pid", "7"}});
    EXPECT_EQ(response.status, 200);
    EXPECT_THAT(response.file_name, EndsWith("-7.pb.gz"));
    EXPECT_EQ(response.file_name.find_first_not_of(
                  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."),
              std::string::npos)
        << response.file_name;
    EXPECT_EQ(response.file_name.find(".."), std::string::npos);
    EXPECT_EQ(response.file_name.find('/'), std::string::npos);
  }
}

TEST_F(ApiRoutesTest, WhatGoToolPprofAsksFor) {
  for (const char* path : {"/debug/pprof/heap", "/debug/pprof/allocs"}) {
    const HttpResponse response = get(path, {{"debug", "0"}, {"gc", "1"}});
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "application/octet-stream");
    EXPECT_EQ(response.file_name, "memprofd.pb.gz");
  }
  EXPECT_NE(get("/debug/pprof/heap").body, get("/debug/pprof/allocs").body);
}

TEST_F(ApiRoutesTest, SeveralPidsAreSeveralTargets) {
  const HttpResponse both =
      get("/debug/pprof/heap", {{"pid", "4242"}, {"pid", "77"}, {"format", "collapsed"}});
  EXPECT_EQ(both.file_name, "memprofd.collapsed");
  const HttpResponse one = get("/debug/pprof/heap", {{"pid", "77"}, {"format", "collapsed"}});
  EXPECT_EQ(one.file_name, "-77.collapsed");
  EXPECT_GT(both.body.size(), one.body.size());
}

TEST_F(ApiRoutesTest, BadValuesAre400) {
  for (const char* path : {"/api/v1/sites", "/api/v1/callers", "/api/v1/leaks", "/api/v1/history",
                           "/debug/pprof/heap", "/debug/pprof/allocs"}) {
    expect_refusal(400, path, {{"pid", "x"}});
    expect_refusal(400, path, {{"pid", "4242"}, {"nonsense", "1"}});
    expect_refusal(400, path, {{"pid", "4242"}, {"heap", "none"}});
    expect_refusal(400, path, {{"pid", "4242"}, {"min_lifetime_seconds", "nan"}});
    expect_refusal(400, path, {{"pid", "4242"}, {"require", "("}, {"function", "x"}});
    expect_refusal(
        400, path,
        {{"pid", "4242"}, {"begin_unix_ns", "-1"}, {"end_unix_ns", "-2"}, {"function", "x"}});
  }
  expect_refusal(400, "/debug/pprof/heap", {{"pid", ""}});
  expect_refusal(400, "/api/v1/profile", {{"format", "pdf"}});
  expect_refusal(400, "/api/v1/sites", {{"pid", "4242"}, {"pattern", "("}});
  expect_refusal(400, "/api/v1/callers", {{"pid", "4242"}});
}

TEST_F(ApiRoutesTest, UnknownPidsAre404) {
  for (const char* path : {"/api/v1/sites", "/api/v1/leaks", "/api/v1/history", "/debug/pprof/heap",
                           "/debug/pprof/allocs"}) {
    expect_refusal(404, path, {{"pid", "1"}});
  }
  expect_refusal(404, "/api/v1/profile", {{"pids", "1"}});
  expect_refusal(404, "/api/v1/callers", {{"pid", "1"}, {"function", "x"}});
}

TEST_F(ApiRoutesTest, DeltaIsOfWhatCameMeanwhile) {
  service_.set({target_of_now(4242)});
  const HttpResponse response = get("/debug/pprof/heap", {{"seconds", "0.001"}, {"pid", "4242"}});
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.file_name, "server_exe-4242.pb.gz");
}

TEST_F(ApiRoutesTest, DeltaHeapIsOfATime) {
  service_.set({target_of_now(4242)});
  expect_refusal(400, "/debug/pprof/delta_heap", {{"pid", "4242"}});
  EXPECT_THAT(get("/debug/pprof/delta_heap").body, HasSubstr("missing parameter seconds"));
  EXPECT_EQ(get("/debug/pprof/delta_heap", {{"seconds", "0.001"}}).status, 200);
  EXPECT_EQ(get("/debug/pprof/delta_heap", {{"last_seconds", "5"}}).status, 200);
}

// "live" covers all live blocks, whenever they were allocated; "allocated" only the time asked for.
TEST_F(ApiRoutesTest, DeltaHeapHasAllThatLives) {
  const Params last{{"pid", "77"}, {"last_seconds", "3"}, {"format", "collapsed"}};
  const auto with = [&](const char* measure) {
    Params params = last;
    params.insert({"measure", measure});
    return get("/debug/pprof/delta_heap", params).body;
  };
  EXPECT_THAT(with("allocated"), EndsWith(" 2400\n"));
  EXPECT_THAT(with("live"), EndsWith(" 8000\n"));
}

TEST_F(ApiRoutesTest, LabelsSelect) {
  auto other = fixed_target(4300);
  other->info.comm = "other";
  other->info.container = "0123456789ab";
  service_.set({fixed_target(), other});
  const auto file = [&](Params params) {
    const HttpResponse response = get("/debug/pprof/heap", std::move(params));
    EXPECT_EQ(response.status, 200) << response.body;
    return response.file_name;
  };
  EXPECT_EQ(file({{"comm", "other"}}), "other-4300.pb.gz");
  EXPECT_EQ(file({{"container", "0123456789ab"}}), "other-4300.pb.gz");
  EXPECT_EQ(file({{"container", ""}, {"mode", "agent"}}), "server_exe-4242.pb.gz");
  EXPECT_EQ(file({{"comm", "other"}, {"comm", "server.exe"}}), "memprofd.pb.gz") << "either";
  EXPECT_EQ(file({{"comm", "other"}, {"pid", "4300"}}), "other-4300.pb.gz");
  expect_refusal(404, "/debug/pprof/heap", {{"comm", "other"}, {"pid", "4242"}});
  expect_refusal(404, "/debug/pprof/heap", {{"unit", "shop.service"}});
  expect_refusal(404, "/debug/pprof/heap", {{"unit", "a\nb"}});
}

TEST_F(ApiRoutesTest, DeltaOmitsEndedTargets) {
  auto ended = fixed_target();
  ended->info.state = TargetState::kExited;
  service_.set({ended, target_of_now(4300)});
  const HttpResponse response = get("/debug/pprof/allocs", {{"seconds", "0.001"}});
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.file_name, "server_exe-4300.pb.gz");
  expect_refusal(400, "/debug/pprof/allocs", {{"seconds", "600"}, {"pid", "4242"}});
}

// Each would take 600 s if they ran one after the other.
TEST_F(ApiRoutesTest, DeltaRefusesBeforeItWaits) {
  service_.set({target_of_now(4242)});
  expect_refusal(404, "/debug/pprof/heap", {{"seconds", "600"}, {"pid", "1"}});
  expect_refusal(400, "/debug/pprof/heap", {{"seconds", "600"}, {"nonsense", "1"}});
  expect_refusal(400, "/debug/pprof/heap", {{"seconds", "600"}, {"require", "("}});
  expect_refusal(400, "/debug/pprof/heap", {{"seconds", "600"}, {"last_seconds", "5"}});
  for (const char* bad : {"0", "-1", "601", "nan", "inf", "x", "1e300"}) {
    expect_refusal(400, "/debug/pprof/heap", {{"seconds", bad}});
  }
}

TEST_F(ApiRoutesTest, StopEndsTheWait) {
  service_.set({target_of_now(4242)});
  HttpResponse response;
  std::thread client([&] { response = get("/debug/pprof/heap", {{"seconds", "600"}}); });
  stop_.stop();
  client.join();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.body, "memprofd stops\n");
  expect_refusal(503, "/debug/pprof/heap", {{"seconds", "600"}});
}

TEST_F(ApiRoutesTest, NotAllConnectionsMayWait) {
  service_.set({target_of_now(4242)});
  constexpr int kAskers = 40, kHeapKinds = 32;
  std::atomic<int> refused = 0, stopped = 0;
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < kAskers; ++i) {
      clients.emplace_back([&] {
        const HttpResponse response = get("/debug/pprof/heap", {{"seconds", "600"}});
        (response.status == 503 ? stopped : refused)++;
        EXPECT_THAT(response.body,
                    HasSubstr(response.status == 503 ? "memprofd stops" : "ask again later"));
      });
    }
    while (refused < kAskers - kHeapKinds) std::this_thread::yield();
    stop_.stop();
  }
  EXPECT_EQ(refused, kAskers - kHeapKinds);
  EXPECT_EQ(stopped, kHeapKinds);
}

// Counts how many ask at once, which takes each of them a while.
class CountingSource : public SnapshotSource {
 public:
  std::vector<ProfileSnapshotPtr> snapshots() override {
    const int at_once = ++now_;
    for (int seen = most; seen < at_once && !most.compare_exchange_weak(seen, at_once);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    --now_;
    return {target_};
  }
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int /*pid*/) override { return snapshots()[0]; }

  std::atomic<int> most = 0;

 private:
  const ProfileSnapshotPtr target_ = fixed_target();
  std::atomic<int> now_ = 0;
};

// The memory for answers is that of a few, however many clients ask.
TEST_F(ApiRoutesTest, FewAnswersAreMadeAtOnce) {
  CountingSource source;
  QueryService queries(source);
  routes_.clear();
  add_api_routes(queries, traces_, stop_, routes_);
  std::atomic<int> answered = 0, refused = 0;
  {
    std::vector<std::jthread> clients;
    for (const char* path : {"/api/v1/sites", "/api/v1/callers", "/api/v1/leaks", "/api/v1/history",
                             "/api/v1/targets", "/api/v1/profile", "/debug/pprof/heap"}) {
      for (int i = 0; i < 10; ++i) {
        clients.emplace_back([&, path] {
          const bool all = std::string(path) == "/api/v1/targets";
          const int status = get(path, all ? Params{} : Params{{"pid", "4242"}}).status;
          ++(status == 429 ? refused : answered);
        });
      }
    }
  }
  EXPECT_LE(source.most, 4);
  EXPECT_GE(answered, 32) << "who waits is answered";
  EXPECT_EQ(answered + refused, 70);
}

std::string ask(int port, const std::string& path) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return "";
  const std::string text =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  if (::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return "";
  std::string all;
  char buffer[4096];
  for (ssize_t n; (n = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;) all.append(buffer, n);
  return all;
}

TEST_F(ApiRoutesTest, OverTheWire) {
  auto target = fixed_target();
  target->info.comm = "a\r\nX-Evil: 1";
  service_.set({target});
  auto server = HttpServer::start({"127.0.0.1:0", ""}, routes_);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  const std::string sites =
      ask(port, "/api/v1/sites?pid=4242&pattern=%5ECache%5C.&order=allocated&with_callstacks");
  EXPECT_THAT(sites, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(sites, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_EQ(Json::parse(sites.substr(sites.find("\r\n\r\n")))["sites"][0]["function"],
            "Cache.fill");
  const std::string heap = ask(port, "/debug/pprof/heap?pid=4242");
  EXPECT_THAT(heap, HasSubstr("Content-Disposition: attachment; "
                              "filename=\"a__X-Evil__1-4242.pb.gz\"\r\n"));
  EXPECT_THAT(heap, Not(HasSubstr("\r\nX-Evil")));
  EXPECT_THAT(ask(port, "/api/v1/sites?pid=1"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(port, "/api/v1/sites?pid=%00%FF"), StartsWith("HTTP/1.1 400"));
}

}  // namespace
}  // namespace memprofd
