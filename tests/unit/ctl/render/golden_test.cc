// SPDX-License-Identifier: Apache-2.0
// The outputs that scripts and dashboards rely on, for one fixed snapshot.
#include "tests/kit/golden.h"

#include <gmock/gmock.h>

#include "daemon/ctl/render/render_json.h"
#include "daemon/ctl/render/render_report.h"
#include "daemon/ctl/render/render_rss.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/api/rss_convert.h"
#include "daemon/export/metrics/prometheus_exporter.h"
#include "daemon/rss/rss_advice.h"
#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

using testing::expect_golden;
using testing::FakeService;
using testing::fixed_target;

// A second target that has failed, with a name that is not UTF-8.
std::shared_ptr<ProfileSnapshot> failed_target() {
  auto target = std::make_shared<ProfileSnapshot>();
  target->info = {.pid = 4300,
                  .comm = "ba\xFF\x1b[31md",
                  .exe = "/srv/bad",
                  .runtime_version = "4.13.1",
                  .mode = TargetMode::kAgent,
                  .capture = "kernel",
                  .state = TargetState::kFailed,
                  .message = "the program uses Gc.Memprof itself"};
  target->attached_ns = 1'700'000'100'000'000'000;
  target->time_ns = target->attached_ns;
  target->symbolizer = testing::fixed_symbolizer();
  return target;
}

// One of which nothing has been seen yet.
ProfileSnapshotPtr quiet_target() {
  auto target = std::make_shared<ProfileSnapshot>(*failed_target());
  target->info.pid = 4301;
  target->info.exe = "/srv/quiet";
  target->info.state = TargetState::kSampling;
  target->info.message.clear();
  return target;
}

std::vector<ProfileSnapshotPtr> both() { return {fixed_target(), failed_target()}; }

pb::ListTargetsResponse targets_response() {
  pb::ListTargetsResponse response;
  for (const ProfileSnapshotPtr& target : both()) *response.add_targets() = to_proto(*target);
  return response;
}

pb::ListSitesResponse sites_response() {
  FakeService service({fixed_target()});
  pb::ListSitesRequest request;
  request.set_pid(4242);
  request.set_with_callstacks(true);
  return QueryService(service).list_sites(request).value();
}

// The census of a heap of 64 KiB.
std::shared_ptr<const CensusStore> fixed_censuses() {
  ShortCensus census{.types = {.typed = {.blocks = 900, .words = 6144}},
                     .garbage = {.blocks = 10, .words = 512},
                     .classes = {{"Shop.order", {.blocks = 512, .words = 4096}},
                                 {"string list", {.blocks = 388, .words = 2048}},
                                 {"string", {.blocks = 64, .words = 1024}}},
                     .other = {.blocks = 8, .words = 1024}};
  census.info.pid = 4242;
  census.info.unix_ns = static_cast<std::int64_t>(fixed_target()->time_ns);
  auto book = std::make_shared<CensusStore>();
  book->add(census);
  return book;
}

std::shared_ptr<const ServerStats> fixed_servers() {
  auto stats = std::make_shared<ServerStats>();
  stats->http.end({{"handler", "/metrics"}, {"method", "GET"}}, "200", 0.03);
  const RequestCounts::Kind targets{{"grpc_type", "unary"},
                                    {"grpc_service", "memprof.v1.Profiler"},
                                    {"grpc_method", "ListTargets"}};
  stats->grpc.begin(targets);
  stats->grpc.end(targets, "OK", 0.002);
  return stats;
}

std::shared_ptr<const RuleBook> fixed_rules() {
  auto book = std::make_shared<RuleBook>();
  const RuleBook::Target target{4242, fixed_target()->attached_ns};
  book->note(target, {.rule = {.name = "cache"}, .verdict = RuleVerdict::kBroken});
  book->note(target, {.rule = {.name = "growth <= 0 B"}, .verdict = RuleVerdict::kHolds});
  book->note(target, {.rule = {.name = "unknown"}});
  return book;
}

TEST(Golden, Metrics) {
  auto with_budget = fixed_target();
  with_budget->info.overhead = testing::fixed_overhead();
  with_budget->info.asked.native_heap_interval = kUsualNativeHeapInterval;
  FakeService service({with_budget, failed_target(), quiet_target()});
  service.values = testing::fixed_report();
  service.values.values = {
      {.source = {.name = "Cache.uses"}, .value = {.kind = ValueKind::kQueue, .size = 1000}}};
  const PrometheusExporter exporter(
      service, {"0.1.0", "v0.1.0-2-g0123456789ab"}, {.each = 3}, fixed_servers(),
      [] { return ProcessStats{}; }, std::make_shared<HeapOutcomes>(), fixed_censuses(),
      [] { return DurationCounts{}; }, fixed_rules());
  // Tests before this one have had unexpected errors, which are those of the process.
  std::string text = exporter.text();
  const std::size_t value = text.find("\nmemprofd_unexpected_errors_total ");
  ASSERT_NE(value, std::string::npos);
  const std::size_t begin = text.find(' ', value) + 1;
  text.replace(begin, text.find('\n', begin) - begin, "0");
  expect_golden("metrics.txt", text);
}

TEST(Golden, SitesJson) { expect_golden("sites.json", ctl::answer_json(sites_response()).value()); }
TEST(Golden, TargetsJson) {
  expect_golden("targets.json", ctl::answer_json(targets_response()).value());
}
TEST(Golden, Publication) {
  expect_golden("report.txt",
                ctl::report_text(sites_response(), pb::MEASURE_LIVE, pb::GROUP_BY_SITE));
}

TEST(Golden, Tables) {
  expect_golden("targets.txt", ctl::targets_table(targets_response(), {}));
  expect_golden("sites.txt", ctl::sites_table(sites_response(), pb::GROUP_BY_SITE, false, {}));
}

RssReport fixed_rss() {
  constexpr std::uint64_t kKilo = 1024;
  RssReport report{.pid = 4242, .program = "/srv/shop", .ocaml_version = "5.3.0"};
  report.status = {.anonymous = 60'000 * kKilo,
                   .files = 3000 * kKilo,
                   .swapped = 512 * kKilo,
                   .page_tables = 200 * kKilo,
                   .threads = 12};
  report.counted = 63'004 * kKilo;
  const auto part = [&](RssClass kind, std::uint64_t resident, std::uint64_t size,
                        std::string name = "", std::uint64_t swapped = 0) {
    report.parts.push_back({.kind = kind,
                            .name = std::move(name),
                            .resident = resident * kKilo,
                            .size = size * kKilo,
                            .swapped = swapped * kKilo});
  };
  part(RssClass::kOcamlUsed, 20'000, 20'000);
  part(RssClass::kOcamlFree, 8000, 8192, "", 192);
  part(RssClass::kChannel, 4, 76);
  report.parts.back().number = 1;
  part(RssClass::kMallocUsed, 12'000, 12'500, "", 320);
  part(RssClass::kMallocFree, 20'000, 20'500);
  part(RssClass::kCode, 1500, 2000, "/lib/libc.so.6");
  part(RssClass::kCode, 1000, 1200, "/srv/shop");
  part(RssClass::kReadOnlyData, 400, 500, "/srv/shop");
  part(RssClass::kStaticData, 100, 100, "/lib/x\x1b[31m.so");
  part(RssClass::kReserved, 0, 1'000'000);
  report.allocator = "glibc";
  report.arenas = {
      {.is_main = true, .system = 20'000 * kKilo, .used = 12'000 * kKilo, .free = 7000 * kKilo},
      {.system = 14'000 * kKilo, .used = 4 * kKilo, .free = 13'000 * kKilo, .cached = 3 * kKilo}};
  report.walked_chunks = 70'000;
  report.mapped_chunks = 3;
  report.space_overhead = 120;
  report.heap_known = true;
  report.trimmable = 19'000 * kKilo;
  report.hints = {"something has a reason"};
  report.notes = {"something is not known"};
  advise(report);
  return report;
}

TEST(GoldenOutputs, ResidentMemory) {
  RssReport report = fixed_rss();
  expect_golden("rss.txt", ctl::rss_text(to_proto(report), 2, {}));
  report.counted = report.status.resident();
  EXPECT_THAT(ctl::rss_text(to_proto(report), 0, {}),
              ::testing::HasSubstr("equal to the kernel's count"));
}

TEST(GoldenOutputs, OwnersOfCMemory) {
  RssReport report{.pid = 4242, .program = "/srv/shop", .has_owners = true};
  report.owners = {
      {.identifier = "_bigarr02",
       .blocks = 12,
       .chunks = 20,
       .bytes = 9 << 20,
       .resident = 8 << 20},
      {.blocks = 1, .chunks = 2, .bytes = 4096, .resident = 4096},
      {.identifier = "x\x1b[31m", .blocks = 1, .chunks = 1, .bytes = 24, .resident = 24}};
  report.no_owner = {.chunks = 300, .bytes = 1 << 20, .resident = 1 << 19};
  const std::string text = ctl::rss_text(to_proto(report), 2, {});
  expect_golden("rss_owners.txt", text.substr(text.find("Native memory")));
}

}  // namespace
}  // namespace memprofd
