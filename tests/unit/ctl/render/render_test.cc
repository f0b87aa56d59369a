// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/ctl/arguments.h"
#include "daemon/ctl/doctor.h"
#include "daemon/ctl/render/render_json.h"
#include "daemon/ctl/render/render_report.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/render/text_table.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/api/message_json.h"
#include "daemon/export/api/query_service.h"
#include "daemon/model/pause_refusal.h"
#include "daemon/util/drops.h"
#include "daemon/util/utf8.h"
#include "tests/kit/fake_service.h"

namespace memprofd::ctl {
namespace {

using memprofd::testing::fixed_target;
using memprofd::testing::kRate;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

pb::ListSitesResponse sites() {
  memprofd::testing::FakeService service({fixed_target()});
  pb::ListSitesRequest request;
  request.set_pid(4242);
  request.set_with_callstacks(true);
  return QueryService(service).list_sites(request).value();
}

TEST(Places, LackTheFolderThatAPackageWasBuiltIn) {
  EXPECT_EQ(location_text("/home/me/.opam/4.14.1/.opam-switch/build/lwt.5.7.0/_build/default/src/"
                          "core/lwt.ml",
                          812),
            "src/core/lwt.ml:812");
  EXPECT_EQ(location_text("/home/me/.opam/4.14.1/.opam-switch/build/zarith.1.13/z.ml", 3),
            "zarith.1.13/z.ml:3");
  EXPECT_EQ(location_text("/build/reproducible-path/ocaml-lwt-5.6.1/a.ml", 3),
            "ocaml-lwt-5.6.1/a.ml:3");
  EXPECT_EQ(location_text("/build/ocaml-lwt-5.6.1/a.ml", 0), "ocaml-lwt-5.6.1/a.ml");
  EXPECT_EQ(location_text("/srv/shop/bin/main.ml", 7), "/srv/shop/bin/main.ml:7");
  EXPECT_EQ(location_text("a/_build/x.ml", 7), "x.ml:7");
  EXPECT_EQ(location_text("bin/main.ml", 7), "bin/main.ml:7");
  EXPECT_EQ(location_text("", 7), "");
}

TEST(TextTable, AlignsByWidthOnTheTerminal) {
  TextTable table({{"NUMBER", Align::kRight}, {"NAME"}, {"LAST"}});
  table.add_row({"1 ± 2", "é", ""});
  table.add_row({"12,345,678", "abc", "x"});
  EXPECT_THAT(table.lines(), ElementsAre("    NUMBER  NAME  LAST",  //
                                         "     1 ± 2  é",           //
                                         "12,345,678  abc   x"));
  EXPECT_THAT(table.lines(8), ElementsAre("    NUM…", "     1 …", "12,345,…"));
}

nlohmann::json parsed(const google::protobuf::Message& answer) {
  return nlohmann::json::parse(answer_json(answer).value());
}

TEST(AnswerJson, IsThatOfTheApiWithItsVersion) {
  const pb::ListSitesResponse answer = sites();
  auto json = parsed(answer);
  EXPECT_EQ(json["api_version"], "v1");
  json.erase("api_version");
  EXPECT_EQ(json, nlohmann::json::parse(message_json(answer, false).value()));
  EXPECT_EQ(parsed(pb::StopTraceRequest()).size(), 2u);  // and id
  EXPECT_EQ(parsed(pb::GetServerInfoRequest()), nlohmann::json({{"api_version", "v1"}}));
}

TEST(SitesJson, HasTheFieldsThatScriptsRelyOn) {
  const auto json = parsed(sites());
  ASSERT_EQ(json["sites"].size(), 4u);
  const auto& site = json["sites"][0];
  EXPECT_EQ(site["function"], "Sessions.remember");
  EXPECT_EQ(site["file"], "bin/sessions.ml");
  EXPECT_EQ(site["line"], 27);
  EXPECT_EQ(site["samples"], "10000");
  EXPECT_EQ(site["allocated"]["bytes"], 80e6);
  EXPECT_DOUBLE_EQ(site["allocated"]["bytes_stderr"], 800e3 * std::sqrt(1 - kRate));
  EXPECT_EQ(site["promoted"]["bytes"], 72e6);
  EXPECT_EQ(site["live"]["bytes"], 76e6);
  EXPECT_GT(site["live"]["bytes_stderr"], 0);
  for (const char* name : {"allocated", "promoted", "live", "died_young", "died_old"}) {
    EXPECT_LE(site[name]["bytes_lower"], site[name]["bytes"]) << name;
    EXPECT_GE(site[name]["bytes_upper"], site[name]["bytes"]) << name;
  }
  for (const char* name : {"allocated_objects", "live_objects"}) {
    const std::string of(name);
    EXPECT_LE(site[of + "_lower"], site[of]) << of;
    EXPECT_GE(site[of + "_upper"], site[of]) << of;
  }
  EXPECT_NEAR(site["allocated"]["bytes_lower"], 80e6 - 1.95 * 800e3, 1e4);
  EXPECT_NEAR(site["allocated"]["bytes_upper"], 80e6 + 1.97 * 800e3, 1e4);
  EXPECT_EQ(site["callstack"][1]["function"], "Request.handle");
  EXPECT_EQ(site["callstack"][1]["file"], "bin/request.ml");
  EXPECT_EQ(site["callstack"][1]["line"], 40);
}

// Hardly anything of the first has died; all of the third but a bit has.
TEST(SitesJson, AQuantileThatIsNotReachedIsLeftOut) {
  const auto json = parsed(sites());
  const auto& leak = json["sites"][0]["lifetime"];
  EXPECT_FALSE(leak.contains("p50_seconds"));
  EXPECT_FALSE(leak["p50_limits"].contains("upper_seconds"));
  EXPECT_GT(leak["p50_limits"]["lower_seconds"], 300);
  EXPECT_GT(leak["watched_seconds"], 300);
  EXPECT_EQ(leak["alive_ratio"], 0.95);
  const auto& token = json["sites"][2]["lifetime"];
  EXPECT_GT(token["p50_seconds"], token["p50_limits"]["lower_seconds"]);
  EXPECT_LT(token["p50_seconds"], token["p50_limits"]["upper_seconds"]);
  EXPECT_EQ(token["samples"], "249900");
}

TEST(TargetsJson, HasTheFieldsThatScriptsRelyOn) {
  pb::ListTargetsResponse response;
  *response.add_targets() = to_proto(*fixed_target());
  const auto json = parsed(response);
  const auto& target = json["targets"][0];
  EXPECT_EQ(target["pid"], 4242);
  EXPECT_EQ(target["comm"], "server.exe");
  EXPECT_EQ(target["exe"], "/srv/app/server.exe");
  EXPECT_EQ(target["runtime_version"], "4.13.1");
  EXPECT_EQ(target["mode"], "agent");
  EXPECT_EQ(target["state"], "TARGET_STATE_SAMPLING");
  EXPECT_EQ(target["sampling_rate"], 1e-3);
  EXPECT_EQ(target["dropped_events"], "9");
  EXPECT_EQ(parsed(pb::ListTargetsResponse())["targets"].size(), 0u);
}

TEST(TargetsJson, HasTheOverheadWhereThereIsABudget) {
  auto target = fixed_target();
  EXPECT_FALSE(parsed(to_proto(*target)).contains("overhead"));
  target->info.overhead = testing::fixed_overhead();
  const auto overhead = parsed(to_proto(*target))["overhead"];
  EXPECT_EQ(overhead["budget_ratio"], 0.01);
  EXPECT_EQ(overhead["ratio"], 0.0075);
  EXPECT_EQ(overhead["requested_sampling_rate"], 1e-2);
  EXPECT_EQ(overhead["rate_lowered"], "3");
  EXPECT_THAT(target_line(to_proto(*target)),
              HasSubstr("(1 sample per 7.81 KiB), requested: 0.01, overhead 0.8 % of 1.0 %"));
  EXPECT_FALSE(overhead.contains("sample_seconds"));
  target->info.overhead.sample_seconds = 2e-6;
  EXPECT_EQ(parsed(to_proto(*target))["overhead"]["sample_seconds"], 2e-6);
  pb::ListTargetsResponse targets;
  *targets.add_targets() = to_proto(*target);
  EXPECT_THAT(targets_table(targets, {}), HasSubstr(" 0.001 of 0.01 "));
  target->info.overhead.budget = 0;
  EXPECT_THAT(target_line(to_proto(*target)), HasSubstr("overhead 0.8 %\n"));
  EXPECT_EQ(overhead["rate_raised"], "2");
  EXPECT_EQ(overhead["exhausted"], false);
  EXPECT_EQ(overhead["held"], false);
  EXPECT_EQ(overhead["memprofd_ratio"], 0.0125);
}

pb::Target target_in(pb::TargetState state, const std::string& message) {
  pb::Target target;
  target.set_pid(12);
  target.set_state(state);
  target.set_message(message);
  return target;
}

TEST(NotSampled, HasTheStateItsReasonAndTheNextStep) {
  EXPECT_EQ(not_sampled_text(target_in(pb::TARGET_STATE_WAITING, "it is idle")),
            "pid 12: waiting: it is idle\n"
            "It is not sampled yet. To see when it is: memprofctl targets\n");
  EXPECT_EQ(not_sampled_text(target_in(pb::TARGET_STATE_FAILED, "no descriptor is free")),
            "pid 12: failed: no descriptor is free\n"
            "To attach again, without this cause: memprofctl attach 12\n");
  EXPECT_THAT(not_sampled_text(target_in(pb::TARGET_STATE_DETACHED, "")),
              HasSubstr("memprofctl attach 12"));
  EXPECT_THAT(not_sampled_text(target_in(pb::TARGET_STATE_EXITED, "")), HasSubstr("has ended"));
  EXPECT_EQ(not_sampled_text(target_in(pb::TARGET_STATE_SAMPLING, "")), "");
}

TEST(Attach, IsNotDoneWhileTheTargetWaits) {
  pb::AttachResponse response;
  *response.mutable_target() = target_in(pb::TARGET_STATE_WAITING, "it is idle");
  EXPECT_EQ(attach_text(response),
            "pid 12: waiting: it is idle; not sampled yet: `memprofctl targets` shows when\n");
  response.set_already_profiled(true);
  EXPECT_EQ(attach_text(response), "profiled already, pid 12: waiting: it is idle\n");
  response.Clear();
  *response.mutable_target() = target_in(pb::TARGET_STATE_SAMPLING, "");
  EXPECT_THAT(attach_text(response), Not(HasSubstr("not sampled")));
}

TEST(Tables, ArePlainUnlessAskedAndCutToTheWidth) {
  EXPECT_THAT(sites_table(sites(), pb::GROUP_BY_SITE, true, {}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(sites_table(sites(), pb::GROUP_BY_SITE, true, {}),
              HasSubstr("\n    Server.loop        bin/server.ml:81\n"));
  const std::string screen =
      sites_table(sites(), pb::GROUP_BY_SITE, false, {.color = true, .width = 40});
  EXPECT_THAT(screen, HasSubstr("\x1b[1m"));
  EXPECT_THAT(screen, Not(HasSubstr("bin/")));
  EXPECT_EQ(sites_table({}, pb::GROUP_BY_SITE, false, {}), "no sites yet\n");
  EXPECT_EQ(targets_table({}, {}), "no targets; attach with: memprofctl attach PID\n");
}

TEST(Tables, NamesCannotWriteToTheTerminal) {
  pb::ListSitesResponse response = sites();
  response.mutable_target()->set_comm("x\x1b]0;evil\x07");
  response.mutable_sites(0)->set_function("f\x1b[2J\n");
  for (const std::string& text : {sites_table(response, pb::GROUP_BY_SITE, true, {}),
                                  report_text(response, pb::MEASURE_LIVE, pb::GROUP_BY_SITE),
                                  target_line(response.target())}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\x07'), std::string::npos);
  }
}

TEST(TargetLine, SaysStateRateAndReason) {
  pb::Target target = to_proto(*fixed_target());
  EXPECT_EQ(target_line(target),
            "pid 4242 (server.exe): sampling at 0.001/word (1 sample per 7.81 KiB)\n");
  target.mutable_overhead()->set_ratio(0.0075);
  target.mutable_overhead()->set_budget_ratio(0.01);
  EXPECT_EQ(target_line(target),
            "pid 4242 (server.exe): sampling at 0.001/word (1 sample per 7.81 KiB), overhead 0.8 % "
            "of 1.0 %\n");
  target.set_state(pb::TARGET_STATE_WAITING);
  target.set_message("the program is idle");
  EXPECT_EQ(target_line(target), "pid 4242 (server.exe): waiting: the program is idle\n");
}

// A program that works in C code alone never has any.
TEST(Publication, NothingWasSampledSaysWhatCMayDo) {
  pb::ListSitesResponse response;
  response.mutable_target()->set_pid(4242);
  response.mutable_target()->set_state(pb::TARGET_STATE_SAMPLING);
  const std::string report = report_text(response, pb::MEASURE_LIVE, pb::GROUP_BY_SITE);
  EXPECT_THAT(report, HasSubstr("--mode observe --c-heap"));
  EXPECT_THAT(sites_table(response, pb::GROUP_BY_SITE, false, {}),
              HasSubstr("--mode observe --c-heap"));
  response.mutable_target()->set_alloc_events(1);
  EXPECT_EQ(sites_table(response, pb::GROUP_BY_SITE, false, {}), "no sites yet\n");
}

TEST(Publication, NothingWasSampledBesideATrackerOfTheProgram) {
  pb::ListSitesResponse response;
  pb::Target& target = *response.mutable_target();
  target.set_state(pb::TARGET_STATE_SAMPLING);
  target.add_drops()->set_reason("domain_in_use");
  for (const std::string& text : {report_text(response, pb::MEASURE_LIVE, pb::GROUP_BY_SITE),
                                  sites_table(response, pb::GROUP_BY_SITE, false, {})}) {
    EXPECT_THAT(text, HasSubstr("the program samples by Gc.Memprof itself"));
    EXPECT_THAT(text, Not(HasSubstr("--c-heap")));
  }
  target.set_alloc_events(1);
  EXPECT_EQ(sites_table(response, pb::GROUP_BY_SITE, false, {}), "no sites yet\n");
  target = sites().target();
  *response.mutable_sites() = sites().sites();
  EXPECT_THAT(sites_table(response, pb::GROUP_BY_SITE, false, {}),
              Not(HasSubstr(kDomainInUseText)));
  target.add_drops()->set_reason("domain_in_use");
  EXPECT_THAT(sites_table(response, pb::GROUP_BY_SITE, false, {}), HasSubstr(kDomainInUseText));
}

TEST(Publication, CopesWithNothing) {
  const std::string text = report_text({}, pb::MEASURE_LIVE, pb::GROUP_BY_SITE);
  EXPECT_THAT(text, HasSubstr("No sites yet."));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(Publication, OfATraceHasNothingOfAnAttach) {
  pb::ListSitesResponse response = sites();
  pb::Target& target = *response.mutable_target();
  target.set_mode("trace");
  target.clear_runtime_version();
  target.set_attached_unix_ns(1'700'000'000'000'000'000);
  response.set_time_unix_ns(1'700'000'060'000'000'000);
  const std::string text = report_text(response, pb::MEASURE_LIVE, pb::GROUP_BY_SITE);
  EXPECT_THAT(text, HasSubstr("a trace of 1.0 min from 2023-11-14 22:13:20 UTC on"));
  for (const char* words : {"OCaml ,", "attached in", "ago", "mode"}) {
    EXPECT_THAT(text, Not(HasSubstr(words)));
  }
}

TEST(Publication, CutsLongCallstacks) {
  pb::ListSitesResponse response = sites();
  for (int i = 0; i < 100; ++i) {
    response.mutable_sites(0)->add_callstack()->set_function("f" + std::to_string(i));
  }
  EXPECT_THAT(report_text(response, pb::MEASURE_LIVE, pb::GROUP_BY_SITE),
              HasSubstr("... 79 more\n"));
}

// The frame that matters comes after the recursion.
TEST(Publication, FoldsRecursion) {
  pb::ListSitesResponse response = sites();
  pb::Site& site = *response.mutable_sites(0);
  site.clear_callstack();
  for (int i = 0; i < 252; ++i) {
    pb::Location& frame = *site.add_callstack();
    frame.set_function("Stdlib__List.map");
    frame.set_file("list.ml");
    frame.set_line(92);
  }
  site.add_callstack()->set_function("Search.run");
  EXPECT_THAT(report_text(response, pb::MEASURE_LIVE, pb::GROUP_BY_SITE),
              HasSubstr("       Stdlib__List.map ×252  list.ml:92\n       Search.run\n\n"));
}

TEST(Findings, ShowLevelAndRemedy) {
  pb::DiagnoseResponse response;
  memprofd::testing::FakeService service;
  for (const Finding& finding : service.diagnose(9)) *response.add_findings() = to_proto(finding);
  EXPECT_EQ(findings_text(response, {}),
            "ok       kernel         6.1: all that is needed\n"
            "warning  capture probe  single-stepped, about 10 µs a sample\n"
            "                        -> leave --capture at auto\n"
            "problem  runtime        pid 9 is not an OCaml program\n"
            "                        -> give the pid of one\n");
  EXPECT_EQ(verdict(response, 9).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(verdict(response, 0).code(), absl::StatusCode::kPermissionDenied);
  response.mutable_findings()->RemoveLast();
  EXPECT_TRUE(verdict(response, 9).ok());
}

TEST(Findings, WithoutADaemonSayWhatCanBeSaid) {
  const auto response = local_findings(absl::UnavailableError("nobody at X; start it"), 1);
  EXPECT_EQ(response.findings(0).subject(), "daemon");
  EXPECT_EQ(response.findings(0).detail(), "nobody at X");
  EXPECT_EQ(response.findings(0).remedy(), "start it");
  EXPECT_EQ(response.findings(1).subject(), "kernel");
  EXPECT_EQ(response.findings(response.findings_size() - 1).detail(), "pid 1 exists");
}

TEST(ChoosePid, TakesTheOnlyTarget) {
  pb::ListTargetsResponse targets;
  EXPECT_EQ(choose_pid(0, targets).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*choose_pid(12, targets), 12);
  EXPECT_EQ(choose_pid(-1, targets).status().code(), absl::StatusCode::kInvalidArgument);
  pb::Target& first = *targets.add_targets();
  first.set_pid(5);
  first.set_state(pb::TARGET_STATE_EXITED);
  EXPECT_EQ(*choose_pid(0, targets), 5);
  pb::Target& second = *targets.add_targets();
  second.set_pid(6);
  second.set_state(pb::TARGET_STATE_SAMPLING);
  EXPECT_EQ(*choose_pid(0, targets), 6);
  targets.mutable_targets(0)->set_state(pb::TARGET_STATE_WAITING);
  EXPECT_EQ(choose_pid(0, targets).status().message(),
            "several targets (pids 5, 6); choose with --pid");
  pb::Target& third = *targets.add_targets();
  third.set_pid(7);
  third.set_state(pb::TARGET_STATE_EXITED);
  EXPECT_EQ(choose_pid(0, targets).status().message(),
            "several targets (pids 5, 6); choose with --pid");
  for (pb::Target& target : *targets.mutable_targets()) target.set_state(pb::TARGET_STATE_EXITED);
  EXPECT_EQ(choose_pid(0, targets).status().message(),
            "no target is active, and 3 have ended; choose with --pid: `memprofctl targets` lists "
            "them");
}

TEST(RunningTargets, LeaveOutEndedOnesWhileAnyRuns) {
  pb::ListTargetsResponse targets;
  *targets.add_targets() = target_in(pb::TARGET_STATE_EXITED, "gone");
  EXPECT_THAT(running_targets_text(targets, {}), HasSubstr("gone"));
  EXPECT_THAT(running_targets_text(targets, {}), Not(HasSubstr("--ended")));
  *targets.add_targets() = target_in(pb::TARGET_STATE_FAILED, "no descriptor is free");
  *targets.add_targets() = target_in(pb::TARGET_STATE_SAMPLING, "at a lower rate");
  const std::string text = running_targets_text(targets, {});
  EXPECT_THAT(text, HasSubstr("at a lower rate"));
  EXPECT_THAT(text, HasSubstr("no descriptor is free"));
  EXPECT_THAT(text, Not(HasSubstr("gone")));
  EXPECT_THAT(text, HasSubstr("\n1 ended: memprofctl targets --ended\n"));
}

TEST(WithEndpoint, CompletesCommandsThatLackIt) {
  const Endpoint endpoint{.socket = "/tmp/a.sock"};
  EXPECT_EQ(with_endpoint("no 5; `memprofctl targets` lists them, `memprofctl info` too", endpoint),
            "no 5; `memprofctl targets --grpc.socket /tmp/a.sock` lists them, `memprofctl info "
            "--grpc.socket /tmp/a.sock` too");
  for (const char* message :
       {"", "no command", "`memprofctl open", "`memprofctl rate --help` helps",
        "`memprofctl targets --grpc.socket /b` lists them",
        "`memprofctl targets --address a:1` lists them"}) {
    EXPECT_EQ(with_endpoint(message, endpoint), message);
  }
}

TEST(CommandWithPause, TakesTheTimeOfTheRefusal) {
  const absl::Status refused = with_refusal(absl::OutOfRangeError("too long"),
                                            {.predicted_seconds = 0.04, .allowed_seconds = 0.02});
  EXPECT_EQ(command_with_pause(refused, "leaks 5"), "leaks 5 --max-pause 80ms");
  EXPECT_EQ(command_with_pause(absl::NotFoundError("pass --max-pause 80ms"), "leaks 5"), "");
}

TEST(RateOf, TakesEitherForm) {
  EXPECT_EQ(*rate_of("1e-4", ""), 1e-4);
  EXPECT_EQ(*rate_of("", "8KB"), 1e-3);
  EXPECT_EQ(*rate_of("", ""), 0);
  EXPECT_FALSE(rate_of("1e-4", "8KB").ok());
  EXPECT_FALSE(rate_of("0", "").ok());
}

TEST(Words, LocationsAndLosses) {
  EXPECT_EQ(location_text("a.ml", 3), "a.ml:3");
  EXPECT_EQ(location_text("a.ml", 0), "a.ml");
  EXPECT_EQ(location_text("", 0), "");
  EXPECT_EQ(losses_text({}), "none");
  EXPECT_EQ(losses_text(to_proto(*fixed_target())),
            "9 events (kernel/capture_ring_full 7, pair/no_capture 2)");
  ProfileSnapshot restarted;
  restarted.drops.set(Drop::kFollowSessionEnd, 3000);
  restarted.drops.set(Drop::kFollowStaleSession, 237);
  EXPECT_EQ(losses_text(to_proto(restarted)), "none") << "on purpose";
  EXPECT_EQ(given_up_text(to_proto(restarted)),
            "3,237 events (follow/session_end 3,000, follow/stale_session 237)");
  restarted.drops.set(Drop::kFollowLostRecords, 5);
  EXPECT_EQ(losses_text(to_proto(restarted)), "5 events (follow/lost_records 5)");
  EXPECT_EQ(given_up_text(to_proto(*fixed_target())), "");
  EXPECT_EQ(utc_text(1'700'000'000'000'000'000), "2023-11-14 22:13:20 UTC");
}

TEST(Words, Ranges) {
  pb::TimeRange range;
  range.set_begin_unix_ns(1'700'000'000'000'000'000);
  range.set_end_unix_ns(1'700'000'300'000'000'000);
  EXPECT_EQ(range_text(range), "2023-11-14 22:13:20 UTC to 2023-11-14 22:18:20 UTC (5.0 min)");
}

TEST(Words, GroupsAreCalledByWhatMakesThem) {
  pb::Site site;
  site.set_thread(4242);
  EXPECT_EQ(site_text(site, pb::GROUP_BY_THREAD), "thread 4242");
  EXPECT_EQ(site_text(site, pb::GROUP_BY_DOMAIN), "domain 0");
  EXPECT_EQ(site_text(site, pb::GROUP_BY_FILE), "(no file)");
  EXPECT_EQ(site_text(site, pb::GROUP_BY_LIBRARY), "(no library)");
  site.set_function("Cache.fill");
  EXPECT_EQ(site_text(site, pb::GROUP_BY_FUNCTION), "Cache.fill");
  site.set_file("cache.ml");
  site.set_line(58);
  site.set_module("Cache");
  site.set_library("lib\x1b.so");
  EXPECT_EQ(site_text(site, pb::GROUP_BY_SITE), "Cache.fill  cache.ml:58");
  EXPECT_EQ(site_text(site, pb::GROUP_BY_CALLSTACK), "Cache.fill  cache.ml:58");
  EXPECT_EQ(site_text(site, pb::GROUP_BY_FILE), "cache.ml");
  EXPECT_EQ(site_text(site, pb::GROUP_BY_MODULE), "Cache");
  EXPECT_EQ(site_text(site, pb::GROUP_BY_LIBRARY), "lib?.so");
}

TEST(Words, BlocksHaveTheirError) {
  pb::Site site;
  site.set_allocated_objects(12345.6);
  site.set_allocated_objects_stderr(56.4);
  site.set_live_objects(3);
  site.set_live_objects_stderr(0.2);
  EXPECT_EQ(measured_text(site, pb::MEASURE_ALLOCATED_OBJECTS), "12,346 ± 56");
  EXPECT_EQ(measured_text(site, pb::MEASURE_LIVE_OBJECTS), "3 ± 1");
  site.set_live_objects_stderr(0);
  EXPECT_EQ(measured_text(site, pb::MEASURE_LIVE_OBJECTS), "3") << "not known";
}

TEST(Words, EachMeasureInItsUnit) {
  pb::Site site = sites().sites(0);
  EXPECT_EQ(measured(site, pb::MEASURE_LIVE).value, 76e6);
  EXPECT_DOUBLE_EQ(measured(site, pb::MEASURE_ALLOCATED).standard_error,
                   800e3 * std::sqrt(1 - kRate));
  EXPECT_EQ(measured(site, pb::MEASURE_SAMPLES).standard_error, 100);
  EXPECT_EQ(measured_text(site, pb::MEASURE_SAMPLES), "10,000");
  EXPECT_EQ(measured_text(site, pb::MEASURE_DIED_YOUNG), "3.1 MiB ± 0.2");
  EXPECT_EQ(measured_text(site, pb::MEASURE_LIFETIME), median_text(site.lifetime()));
  EXPECT_EQ(measure_text(-3, 0, pb::MEASURE_LIVE_OBJECTS), "0");
  EXPECT_EQ(median_text({}), "-");
  EXPECT_EQ(median_text(site.lifetime()), "> 8.9 min (95 %)");
}

}  // namespace
}  // namespace memprofd::ctl
