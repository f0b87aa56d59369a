// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/metrics/prometheus_exporter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "daemon/export/metrics/heap_metrics.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using testing::FakeService;
using testing::fixed_target;
using testing::kRate;
using testing::kSampleBytes;

// Series with labels as written, to value. Fails the test on a duplicate.
std::map<std::string, double> parse(const std::string& text) {
  std::map<std::string, double> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t space = line.rfind(' ');
    EXPECT_TRUE(out.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second)
        << "twice: " << line;
  }
  return out;
}

std::map<std::string, double> scrape(const PrometheusExporter& exporter) {
  return parse(exporter.text());
}

TEST(PrometheusText, HasTheSeriesThatDashboardsRelyOn) {
  FakeService service({fixed_target()});
  const PrometheusExporter exporter(service, {"1.2.3", "v1.2.3-4-gabc"});
  auto series = scrape(exporter);
  const auto value = [&](const std::string& name) {
    EXPECT_TRUE(series.contains(name)) << name;
    return series[name];
  };
  EXPECT_EQ(value("memprofd_build_info{version=\"1.2.3\",revision=\"v1.2.3-4-gabc\"}"), 1);
  EXPECT_EQ(value("memprofd_target_info{pid=\"4242\",program=\"server.exe\",comm=\"server.exe\","
                  "exe=\"/srv/app/"
                  "server.exe\",unit=\"\",container=\"\",runtime_version="
                  "\"4.13.1\",mode=\"agent\",forked_from=\"\"}"),
            1);
  EXPECT_EQ(value("memprofd_target_up{pid=\"4242\",program=\"server.exe\"}"), 1);
  EXPECT_EQ(value("memprofd_allocated_bytes_total{pid=\"4242\",program=\"server.exe\",heap="
                  "\"minor\",source=\"normal\"}"),
            274003 * kSampleBytes);
  EXPECT_EQ(value("memprofd_allocated_bytes_total{pid=\"4242\",program=\"server.exe\",heap="
                  "\"major\",source=\"marshal\"}"),
            50 * kSampleBytes);
  EXPECT_EQ(value("memprofd_promoted_bytes_total{pid=\"4242\",program=\"server.exe\"}"),
            11550 * kSampleBytes);
  EXPECT_EQ(value("memprofd_live_bytes{pid=\"4242\",program=\"server.exe\"}"),
            10403 * kSampleBytes);
  EXPECT_NEAR(value("memprofd_live_bytes_stderr{pid=\"4242\",program=\"server.exe\"}"),
              std::sqrt(10403.0 * (1 - kRate)) * kSampleBytes, 1);
  EXPECT_EQ(
      value("memprofd_deallocated_bytes_total{pid=\"4242\",program=\"server.exe\",heap=\"major\"}"),
      2320 * kSampleBytes);
  EXPECT_EQ(value("memprofd_samples_total{pid=\"4242\",program=\"server.exe\",event=\"promote\"}"),
            11550);
  const std::string site =
      "{pid=\"4242\",program=\"server.exe\",function=\"Sessions.remember\",location=\"bin/"
      "sessions.ml:27\"";
  const std::string of_program =
      "{program=\"server.exe\",function=\"Sessions.remember\",location=\"bin/sessions.ml:27\"";
  EXPECT_EQ(value("memprofd_site_allocated_bytes_total" + site + "}"), 10000 * kSampleBytes);
  EXPECT_EQ(value("memprofd_site_promoted_bytes_total" + site + "}"), 9000 * kSampleBytes);
  EXPECT_EQ(value("memprofd_site_live_bytes" + site + "}"), 9500 * kSampleBytes);
  EXPECT_EQ(value("memprofd_site_lifetime_seconds_count" + of_program + "}"), 500 / testing::kRate);
  EXPECT_NEAR(value("memprofd_site_lifetime_seconds_sum" + of_program + "}"),
              500 / testing::kRate * 0.05, 1e-6);
  EXPECT_EQ(value("memprofd_site_lifetime_seconds_bucket" + of_program + ",le=\"+Inf\"}"),
            500 / testing::kRate);
  EXPECT_EQ(value("memprofd_ocaml_minor_collections_total{pid=\"4242\",program=\"server.exe\"}"),
            1053);
  EXPECT_EQ(value("memprofd_ocaml_major_collections_total{pid=\"4242\",program=\"server.exe\"}"),
            89);
  EXPECT_EQ(value("memprofd_ocaml_heap_bytes{pid=\"4242\",program=\"server.exe\"}"), 64 << 20);
  EXPECT_EQ(
      value("memprofd_ocaml_minor_allocated_bytes_total{pid=\"4242\",program=\"server.exe\"}"),
      2.2e9);
  EXPECT_EQ(value("memprofd_ocaml_gc_pause_seconds_count{program=\"server.exe\",phase="
                  "\"minor\"}"),
            1053);
  EXPECT_EQ(value("memprofd_ocaml_gc_pause_seconds_sum{program=\"server.exe\",phase="
                  "\"major_slice\"}"),
            0.09);
  EXPECT_EQ(value("memprofd_dropped_events_total{stage=\"kernel\",reason=\"capture_ring_full\"}"),
            7);
  EXPECT_EQ(value("memprofd_target_paused_seconds_total{pid=\"4242\",program=\"server.exe\"}"),
            0.00045);
  EXPECT_EQ(value("memprofd_attach_seconds{pid=\"4242\",program=\"server.exe\"}"), 0.0125);
  EXPECT_EQ(value("memprofd_sampling_rate{pid=\"4242\",program=\"server.exe\"}"), 1e-3);
  EXPECT_EQ(value("memprofd_ring_buffer_used_ratio{pid=\"4242\",program=\"server.exe\"}"), 0.25);
  EXPECT_EQ(value("memprofd_live_samples{pid=\"4242\",program=\"server.exe\"}"), 10403);
  EXPECT_EQ(value("memprofd_cpu_seconds_total"), 12.5);
  EXPECT_EQ(value("memprofd_events_total"), 123456);
}

TEST(PrometheusText, SnapshotsOfAHeapCountSinceTheAttach) {
  const ProfileSnapshotPtr target = testing::fixed_target();
  testing::FakeService service({target});
  const auto heaps = std::make_shared<HeapOutcomes>();
  const PrometheusExporter exporter(
      service, {"1"}, {}, std::make_shared<ServerStats>(), [] { return ProcessStats{}; }, heaps);
  const auto is_said = [&](const char* count) {
    return exporter.text().find(absl::StrCat(
               "memprofd_target_heap_snapshots_total{pid=\"4242\",program=\"server.exe\"} ", count,
               "\n")) != std::string::npos;
  };
  EXPECT_TRUE(is_said("0")) << "a first one would be no increase otherwise";
  heaps->count_taken(4242, target->attached_ns - 1);  // of the program before it
  heaps->count_taken(4243, target->attached_ns);
  EXPECT_TRUE(is_said("0"));
  heaps->count_taken(4242, target->attached_ns);
  heaps->count_taken(4242, target->attached_ns);
  EXPECT_TRUE(is_said("2"));
  for (std::uint64_t later = 1; later <= 5000; ++later) {
    heaps->count_taken(7, target->attached_ns + later);
  }
  EXPECT_EQ(0u, heaps->taken_of(4242, target->attached_ns)) << "what is remembered is bounded";
  EXPECT_EQ(1u, heaps->taken_of(7, target->attached_ns + 5000));
}

TEST(PrometheusText, HasTheCensusOfTheLastSnapshotByClass) {
  const ProfileSnapshotPtr target = testing::fixed_target();
  testing::FakeService service({target});
  const auto censuses = std::make_shared<CensusStore>();
  const PrometheusExporter exporter(
      service, {"1"}, {}, std::make_shared<ServerStats>(), [] { return ProcessStats{}; },
      std::make_shared<HeapOutcomes>(), censuses);
  ShortCensus census{.other = {.blocks = 5, .words = 50}};
  census.info.pid = 4242;
  census.info.unix_ns = static_cast<std::int64_t>(target->attached_ns) - 1;
  censuses->add(census);
  EXPECT_EQ(std::string::npos, exporter.text().find("memprofd_heap_class"))
      << "of the program before";
  for (std::uint64_t i = 0; i <= kHeapClassSeries; ++i) {
    census.classes.push_back({absl::StrCat("t", i), {.blocks = 1, .words = 100 - i}});
  }
  census.classes[0].name = std::string(300, 'a') + "0";
  census.classes[1].name = std::string(300, 'a') + "1";
  census.info.unix_ns = static_cast<std::int64_t>(target->attached_ns) + 2'000'000'000;
  censuses->add(census);
  auto found = scrape(exporter);
  const auto of = [&](const std::string& name, const std::string& block_class) {
    return found[absl::StrCat(name, "{pid=\"4242\",program=\"server.exe\",class=\"", block_class,
                              "\"}")];
  };
  EXPECT_EQ(8 * 98, of("memprofd_heap_class_bytes", "t2"));
  EXPECT_EQ(8 * (100 + 99), of("memprofd_heap_class_bytes", std::string(200, 'a'))) << "cut";
  EXPECT_EQ(8 * (50 + 80), of("memprofd_heap_class_bytes", "other"));
  EXPECT_EQ(6, of("memprofd_heap_class_blocks", "other"));
  EXPECT_EQ(0, of("memprofd_heap_class_bytes", "t20"));
}

TEST(PrometheusText, HasTheResultOfABudget) {
  auto target = fixed_target();
  target->info.overhead = testing::fixed_overhead();
  FakeService service({target});
  auto found = scrape(PrometheusExporter(service, {"1.2.3"}, {.each = 2}));
  EXPECT_EQ(found["memprofd_overhead_ratio{pid=\"4242\",program=\"server.exe\"}"], 0.0075);
  EXPECT_EQ(found["memprofd_overhead_budget_ratio{pid=\"4242\",program=\"server.exe\"}"], 0.01);
  EXPECT_EQ(found["memprofd_overhead_budget_exhausted{pid=\"4242\",program=\"server.exe\"}"], 0);
  EXPECT_EQ(found["memprofd_requested_sampling_rate{pid=\"4242\",program=\"server.exe\"}"], 1e-2);
  const std::string changes =
      "memprofd_sampling_rate_changes_total{pid=\"4242\",program=\"server.exe\",reason=";
  EXPECT_EQ(found[changes + "\"over_budget\"}"], 3);
  EXPECT_EQ(found[changes + "\"below_budget\"}"], 2);
  EXPECT_EQ(found["memprofd_sampling_rate_held{pid=\"4242\",program=\"server.exe\"}"], 0);
  EXPECT_EQ(found["memprofd_target_cpu_ratio{pid=\"4242\",program=\"server.exe\"}"], 0.0125);
}

TEST(PrometheusText, HasPublishedValues) {
  FakeService service({fixed_target()});
  service.values = testing::fixed_report();
  service.values.report.all[0].labels = {{"route", "/a"}, {"pid", "own"}, {"ro ute", "b"}};
  const PrometheusExporter exporter(service, {"1.2.3"});
  auto found = scrape(exporter);
  EXPECT_EQ(found["memprofd_point_hits_total{pid=\"4242\",program=\"server.exe\",point="
                  "\"requests\",unit=\"requests\","
                  "route=\"/a\",exported_pid=\"own\",ro_ute=\"b\"}"],
            12);
  const auto durations = [&](const std::string& what) {
    return found[absl::StrCat("memprofd_timer_duration_seconds_", what)];
  };
  const std::string timer = "{pid=\"4242\",program=\"server.exe\",timer=\"handling\"";
  EXPECT_EQ(durations("bucket" + timer + ",le=\"0.05\"}"), 0);
  EXPECT_EQ(durations("bucket" + timer + ",le=\"0.1\"}"), 1)
      << "its bucket has 0.1 near its middle";
  EXPECT_EQ(durations("bucket" + timer + ",le=\"0.5\"}"), 1);
  EXPECT_EQ(durations("bucket" + timer + ",le=\"1\"}"), 3);
  EXPECT_EQ(durations("bucket" + timer + ",le=\"+Inf\"}"), 3);
  EXPECT_EQ(durations("count" + timer + "}"), 3);
  EXPECT_NEAR(durations("sum" + timer + "}"), 1.5, 1e-9);
  EXPECT_EQ(found["memprofd_timer_running{pid=\"4242\",program=\"server.exe\",timer=\"handling\"}"],
            1);
  EXPECT_EQ(
      found["memprofd_value{pid=\"4242\",program=\"server.exe\",value=\"queue\",unit=\"jobs\"}"],
      7);
  EXPECT_EQ(
      found["memprofd_table_longest_chain{pid=\"4242\",program=\"server.exe\",table=\"sessions\"}"],
      3);
  const auto buckets = [&](const char* most) {
    return found[absl::StrCat(
        "memprofd_table_bucket_bindings_bucket{pid=\"4242\",program="
        "\"server.exe\",table=\"sessions\",le=\"",
        most, "\"}")];
  };
  EXPECT_EQ(buckets("0"), 6);
  EXPECT_EQ(buckets("2"), 7);
  EXPECT_EQ(buckets("+Inf"), 8);
  EXPECT_EQ(found["memprofd_table_bucket_bindings_sum{pid=\"4242\",program=\"server.exe\","
                  "table=\"sessions\"}"],
            5);
  for (PublishedValue& one : service.values.report.all) one.control = MEMPROF_CONTROL_OFF;
  const std::string text = PrometheusExporter(service, {"1.2.3"}).text();
  EXPECT_EQ(text.find("memprofd_point_hits_total{"), std::string::npos) << "it is switched off";
  EXPECT_EQ(text.find("memprofd_table_bindings{"), std::string::npos);
}

// Names that become the same, and more names than there is room for, cost no scrape.
TEST(PrometheusText, BearsAnyNames) {
  FakeService service({fixed_target()});
  auto& all = service.values.report.all;
  service.values.publishes = true;
  for (const char* name : {"a\xff", "a\xfe", "b"}) {
    all.push_back(
        {.name = name, .labels = {{"x y", "1"}, {"x_y", "2"}, {"", "3"}, {"9", "4"}, {"le", "5"}}});
  }
  auto found = scrape(PrometheusExporter(service, {"1.2.3"}));
  EXPECT_EQ(found["memprofd_reported_names_without_series{pid=\"4242\",program=\"server.exe\"}"],
            1);
  EXPECT_EQ(
      found.count(
          "memprofd_point_hits_total{pid=\"4242\",program=\"server.exe\",point=\"b\",x_y=\"1\","
          "exported_=\"3\",exported_9=\"4\",exported_le=\"5\"}"),
      1u);
  for (int i = 0; i < 500; ++i) all.push_back({.name = absl::StrCat(i)});
  const std::string text = PrometheusExporter(service, {"1.2.3"}).text();
  found = parse(text);
  EXPECT_EQ(found["memprofd_reported_names_without_series{pid=\"4242\",program=\"server.exe\"}"],
            303 + 1);
}

// Only module values that a client has chosen to record, at any time.
TEST(PrometheusText, HasRecordedModuleValues) {
  FakeService service({fixed_target()});
  const PrometheusExporter exporter(service, {"1.2.3"});
  EXPECT_EQ(exporter.text().find("memprofd_reported"), std::string::npos) << "it says nothing";
  const Value number{.kind = ValueKind::kInteger, .integer = 7};
  service.values.values = {
      {.source = {.name = "Cache.hits"},
       .value = {.kind = ValueKind::kReference, .size = 1, .fields = {number}}},
      {.source = {.name = "Cache.uses"}, .value = {.kind = ValueKind::kQueue, .size = 1000}},
      {.module = "Cache",
       .field = 3,
       .value = {.kind = ValueKind::kTable, .size = 5, .buckets = 8}},
      {.source = {.name = "Cache.long"},
       .value = {.kind = ValueKind::kList, .size = 20'000, .is_longer = true}},
      {.source = {.name = "Cache.quick"},
       .value = {.kind = ValueKind::kInteger, .integer = 1, .is_changing = true}},
  };
  const std::string text = exporter.text();
  auto found = parse(text);
  const std::string of = "{pid=\"4242\",program=\"server.exe\",";
  EXPECT_EQ(found["memprofd_value" + of + "value=\"Cache.hits\"}"], 7);
  EXPECT_EQ(found["memprofd_value_size" + of + "value=\"Cache.uses\"}"], 1000);
  EXPECT_EQ(found["memprofd_table_bindings" + of + "table=\"Cache[3]\"}"], 5);
  EXPECT_EQ(text.find("Cache.long"), std::string::npos) << "how long it is is not known";
  EXPECT_EQ(text.find("Cache.quick"), std::string::npos);
}

// The thread that answers serves all targets.
TEST(PrometheusText, AsksForPublishedValuesOfAllTargetsAtOnce) {
  std::vector<ProfileSnapshotPtr> targets;
  for (int pid = 1; pid <= 60; ++pid) targets.push_back(fixed_target(pid));
  FakeService service(targets);
  service.values.publishes = true;
  service.values.report.all.push_back({.name = "served", .hits = 3});
  const auto found = scrape(PrometheusExporter(service, {"1.2.3"}, {.series = 100'000}));
  int published = 0;
  for (const auto& [name, value] : found) published += name.starts_with("memprofd_point_hits_tot");
  EXPECT_EQ(published, 60);
  EXPECT_EQ(service.calls(), std::vector<std::string>{"published"});
}

TEST(PrometheusText, SitesAddUpToTheTarget) {
  FakeService service({fixed_target()});
  const PrometheusExporter exporter(service, {"1.2.3"}, {.each = 2});  // two of four in `other`
  double allocated = 0, live = 0;
  for (const auto& [name, value] : scrape(exporter)) {
    if (name.starts_with("memprofd_site_allocated_bytes_total{")) allocated += value;
    if (name.starts_with("memprofd_site_live_bytes{")) live += value;
  }
  EXPECT_EQ(allocated, 274003 * kSampleBytes);
  EXPECT_EQ(live, 10403 * kSampleBytes);
}

TEST(PrometheusText, PassesTheLinterOfPrometheus) {
  if (::access("/usr/bin/promtool", X_OK) != 0) GTEST_SKIP() << "no promtool";
  auto odd = fixed_target(77);
  odd->info.comm = "a\"b\\c\nd\xFF";
  FakeService service({fixed_target(), odd});
  const TempDir dir;
  const std::string file = dir.write("metrics", PrometheusExporter(service, {"1.2.3"}).text());
  FILE* promtool = ::popen(absl::StrCat("promtool check metrics < ", file, " 2>&1").c_str(), "r");
  ASSERT_NE(promtool, nullptr);
  std::string said;
  for (int c; (c = std::fgetc(promtool)) != EOF;) said += static_cast<char>(c);
  EXPECT_EQ(::pclose(promtool), 0) << said;
}

TEST(PrometheusText, LabelsFromTheTargetAreEscaped) {
  auto target = fixed_target();
  target->info.comm = "a\"b\\c\nd\xFF";
  FakeService service({target});
  const std::string text = PrometheusExporter(service, {"1"}).text();
  EXPECT_NE(text.find("comm=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\""), std::string::npos);
}

// Adds native allocations at Cache.fill, which also allocates OCaml memory, to a target.
void add_native_memory(ProfileSnapshot& target) {
  target.info.asked.native_heap_interval = 512 << 10;
  testing::add_callstack(target, {3, 4, 5}, {.allocated = 1000, .live = 600});
  target.rows.back().alloc_class.source = Source::kMalloc;
  target.rows.back().counters.resident.add(200, weight_of_word(kRate));
}

TEST(PrometheusText, MemoryOfCHasSeriesOfItsOwnByItsSites) {
  auto target = fixed_target();
  add_native_memory(*target);
  FakeService service({target});
  auto series = scrape(PrometheusExporter(service, {"1"}, {.each = 3}));
  const auto cache = [&](const std::string& name) {
    return series["memprofd_site_" + name +
                  "{pid=\"4242\",program=\"server.exe\",function=\"Cache.fill\",location=\"bin/"
                  "cache.ml:58\"}"];
  };
  EXPECT_EQ(cache("allocated_c_bytes_total"), 1000 * kSampleBytes);
  EXPECT_EQ(cache("live_c_bytes"), 600 * kSampleBytes);
  EXPECT_EQ(cache("resident_c_bytes"), 200 * kSampleBytes);
  EXPECT_NEAR(cache("resident_c_bytes_stderr"), std::sqrt(200 * (1 - kRate)) * kSampleBytes, 1);
  EXPECT_EQ(cache("allocated_bytes_total"), 14000 * kSampleBytes) << "C's memory is in no other";
  EXPECT_EQ(cache("live_bytes"), 800 * kSampleBytes);
}

TEST(PrometheusText, SitesOfCAreAsManyAsOthers) {
  auto target = fixed_target();
  add_native_memory(*target);
  FakeService service({target});
  auto series = scrape(PrometheusExporter(service, {"1"}, {.each = 0}));
  const std::string other =
      "{pid=\"4242\",program=\"server.exe\",function=\"other\",location=\"\"}";
  EXPECT_EQ(series["memprofd_site_live_c_bytes" + other], 600 * kSampleBytes);
  EXPECT_EQ(series["memprofd_site_resident_c_bytes" + other], 200 * kSampleBytes);
  target->info.asked.native_heap_interval = 0;
  const std::string text = PrometheusExporter(service, {"1"}).text();
  EXPECT_EQ(text.find("memprofd_site_live_c_bytes"), std::string::npos);
}

TEST(PrometheusText, SitesThatLookAlikeShareOneSeries) {
  auto target = fixed_target();
  auto symbolizer = testing::fixed_symbolizer();
  symbolizer->table[2] = testing::location("f\xFE", "a.ml", 1);
  symbolizer->table[3] = testing::location("f\xFF", "a.ml", 1);
  target->symbolizer = symbolizer;
  FakeService service({target});
  auto series = scrape(PrometheusExporter(service, {"1"}));  // fails on duplicates
  EXPECT_EQ(series["memprofd_site_allocated_bytes_total{pid=\"4242\",program=\"server.exe\","
                   "function=\"f\xEF\xBF\xBD\","
                   "location=\"a.ml:1\"}"],
            264000 * kSampleBytes);
}

TEST(PrometheusText, CountersNeverFall) {
  FakeService service({fixed_target()});
  const PrometheusExporter exporter(service, {"1"}, {.each = 1});
  const auto first = scrape(exporter);
  auto later = fixed_target();
  testing::add_callstack(*later, {3, 4, 5}, {.allocated = 1'000'000, .live = 1'000'000});
  // Torn or hostile reads of the target's memory.
  later->gc.minor_collections = 5;
  later->gc.minor_words = std::nan("");
  later->gc.major_words = -1;
  later->gc.pauses[0].count[5] = 0;
  later->drops.set(Drop::kKernelCaptureRingFull, 1);
  service.set({later});
  auto second = scrape(exporter);
  for (const auto& [name, value] : first) {
    const std::string family = name.substr(0, name.find('{'));
    const bool counter = family.ends_with("_total") || family.ends_with("_count") ||
                         family.ends_with("_bucket") || family.ends_with("_sum");
    if (!counter) continue;
    ASSERT_TRUE(second.contains(name)) << name << " has gone";
    EXPECT_GE(second[name], value) << name;
  }
}

// Programs beyond the limit are summed; an ended program frees its share.
TEST(PrometheusText, SitesOfAllProgramsHaveALimit) {
  const auto target = [](int pid, TargetState state) {
    auto made = fixed_target();
    made->info.pid = pid;
    made->info.state = state;
    made->attached_ns += static_cast<std::uint64_t>(pid);
    return made;
  };
  const auto named = [](const std::map<std::string, double>& series, int pid) {
    const std::string of =
        "memprofd_site_allocated_bytes_total{pid=\"" + std::to_string(pid) + "\"";
    return std::count_if(series.begin(), series.end(), [&](const auto& entry) {
      return entry.first.starts_with(of) &&
             entry.first.find("function=\"other\"") == entry.first.npos;
    });
  };
  FakeService service({target(1, TargetState::kSampling), target(2, TargetState::kSampling)});
  const PrometheusExporter exporter(service, {"1"}, {.each = 2, .total = 2});
  auto series = scrape(exporter);
  EXPECT_GT(named(series, 1), 0);
  EXPECT_EQ(named(series, 2), 0);
  EXPECT_EQ(series.count("memprofd_live_bytes{pid=\"2\",program=\"server.exe\"}"), 1u);
  service.set({target(1, TargetState::kExited), target(2, TargetState::kSampling)});
  scrape(exporter);
  service.set({target(1, TargetState::kExited), target(2, TargetState::kSampling),
               target(3, TargetState::kSampling)});
  series = scrape(exporter);
  EXPECT_EQ(named(series, 1) + named(series, 2), 0);
  EXPECT_GT(named(series, 3), 0);
}

// Otherwise sums over programs would count the memory of an ended process and of its successor.
TEST(PrometheusText, AnEndedTargetHasOnlyItsLastCounters) {
  FakeService service({fixed_target()});
  const PrometheusExporter exporter(service, {"1"});
  auto before = scrape(exporter);
  auto ended = fixed_target();
  ended->info.state = TargetState::kExited;
  ended->info.end = {EndCause::kOutOfMemory, SIGKILL};
  ended->info.overhead = testing::fixed_overhead();
  service.set({ended});
  auto after = scrape(exporter);
  EXPECT_EQ(after["memprofd_target_up{pid=\"4242\",program=\"server.exe\"}"], 0);
  const std::string end =
      "memprofd_target_end{pid=\"4242\",program=\"server.exe\",state=\"exited\",cause=\"out_of_"
      "memory\",code=\"SIGKILL\"}";
  EXPECT_EQ(after[end], 1);
  EXPECT_FALSE(before.contains(end));
  const std::string allocated =
      "memprofd_allocated_bytes_total{pid=\"4242\",program=\"server.exe\",heap=\"minor\",source="
      "\"normal\"}";
  EXPECT_GT(after.at(allocated), 0);
  EXPECT_EQ(after.at(allocated), before.at(allocated));
  for (const auto& [name, value] : after) {
    if (name.find("pid=") == name.npos || name.starts_with("memprofd_target_")) continue;
    if (name.starts_with("memprofd_snapshot_timestamp_seconds{")) continue;
    EXPECT_TRUE(name.substr(0, name.find('{')).ends_with("_total")) << name;
    EXPECT_FALSE(name.starts_with("memprofd_site_")) << name;
  }
}

// A histogram adds up the successive processes of a program, without counting any twice.
TEST(PrometheusText, HistogramsAreByProgramOverItsProcesses) {
  const auto target = [](int pid, TargetState state = TargetState::kSampling) {
    auto made = fixed_target(pid);
    made->info.state = state;
    return made;
  };
  const auto pauses = [](const std::map<std::string, double>& series) {
    return series.at(
        "memprofd_ocaml_gc_pause_seconds_count{program=\"server.exe\",phase=\"minor\"}");
  };
  const auto lifetimes = [](const std::map<std::string, double>& series) {
    return series.at(
        "memprofd_site_lifetime_seconds_count{program=\"server.exe\",function=\"Cache.fill\","
        "location=\"bin/cache.ml:58\"}");
  };
  constexpr double kPauses = 1053, kDeaths = 13200 / kRate;
  FakeService service({target(1)});
  const PrometheusExporter exporter(service, {"1"});
  EXPECT_EQ(pauses(scrape(exporter)), kPauses);
  service.set({target(1), target(2)});
  auto series = scrape(exporter);
  EXPECT_EQ(pauses(series), 2 * kPauses);
  EXPECT_EQ(lifetimes(series), 2 * kDeaths);
  service.set({target(1, TargetState::kExited), target(2)});
  series = scrape(exporter);
  EXPECT_EQ(pauses(series), 2 * kPauses);
  EXPECT_EQ(lifetimes(series), 2 * kDeaths);
  service.set({target(2), target(3)});
  series = scrape(exporter);
  EXPECT_EQ(pauses(series), 3 * kPauses);
  EXPECT_EQ(lifetimes(series), 3 * kDeaths);
  auto again = target(3);  // the agent counts on
  again->attached_ns += 1;
  auto child = target(4);  // it had its parent's counts at first
  child->info.forked_from = 3;
  service.set({target(2), again, child});
  EXPECT_EQ(pauses(scrape(exporter)), 3 * kPauses);
  service.set({});
  EXPECT_EQ(exporter.text().find("memprofd_ocaml_gc_pause_seconds_count{"), std::string::npos);
}

TEST(PrometheusText, HistogramsAreByPidOnDemand) {
  FakeService service({fixed_target(1), fixed_target(2)});
  const auto series = scrape(PrometheusExporter(service, {"1"}, {.histograms_by_pid = true}));
  EXPECT_EQ(series.at("memprofd_ocaml_gc_pause_seconds_count{pid=\"2\",program=\"server.exe\","
                      "phase=\"minor\"}"),
            1053);
  EXPECT_TRUE(series.contains(
      "memprofd_site_lifetime_seconds_count{pid=\"1\",program=\"server.exe\",function=\"Cache."
      "fill\",location=\"bin/cache.ml:58\"}"));
}

std::vector<ProfileSnapshotPtr> many_targets(int n) {
  std::vector<ProfileSnapshotPtr> targets;
  for (int pid = 1; pid <= n; ++pid) {
    auto target = fixed_target(pid);
    target->attached_ns += static_cast<std::uint64_t>(pid);
    target->info.exe = absl::StrCat("/srv/program", pid % 6);
    target->info.overhead = testing::fixed_overhead();
    targets.push_back(target);
  }
  return targets;
}

// A program with many processes does not displace one that was deployed just now.
TEST(PrometheusText, EachProgramHasSeriesBelowTheLimit) {
  std::vector<ProfileSnapshotPtr> targets = many_targets(30);
  for (std::size_t i = 0; i + 1 < targets.size(); ++i) {
    std::const_pointer_cast<ProfileSnapshot>(targets[i])->info.exe = "/srv/many";
  }
  std::const_pointer_cast<ProfileSnapshot>(targets.back())->info.exe = "/srv/deployed";
  FakeService service(targets);
  const auto series = scrape(PrometheusExporter(service, {"1"}, {.series = 600}));
  EXPECT_GT(series.at("memprofd_held_back_blocks{kind=\"counters\"}"), 0);
  const auto allocated = [](int pid, const char* program) {
    return absl::StrCat("memprofd_allocated_bytes_total{pid=\"", pid, "\",program=\"", program,
                        "\",heap=\"minor\",source=\"normal\"}");
  };
  EXPECT_TRUE(series.contains(allocated(30, "deployed")));
  EXPECT_TRUE(series.contains(allocated(1, "many")));
  EXPECT_FALSE(series.contains(allocated(29, "many")));
}

TEST(PrometheusText, SeriesHaveALimit) {
  for (const int n : {0, 1, 10, 60, 100}) {
    FakeService service(many_targets(n));
    const PrometheusExporter exporter(service, {"1"});
    auto series = scrape(exporter);
    EXPECT_LE(series.size(), kDefaultMaxSeries) << n;
    EXPECT_EQ(series["memprofd_exported_series"], series.size()) << n;
    EXPECT_EQ(series["memprofd_exported_series_max"], kDefaultMaxSeries);
    const auto held_back = [&](const char* kind) {
      return series[absl::StrCat("memprofd_held_back_blocks{kind=\"", kind, "\"}")];
    };
    if (n <= 10) {
      EXPECT_EQ(held_back("sites"), 0) << n;
    }
    if (n <= 60) {
      EXPECT_EQ(held_back("runtime"), 0) << n << ": what tells most is there";
      EXPECT_EQ(held_back("pauses"), 0) << n;
    }
    if (n == 100) {
      EXPECT_EQ(held_back("identity"), 0);
      EXPECT_GT(held_back("sites"), 0) << "and what does not fit is counted";
    }
  }
  FakeService service(many_targets(100));
  const auto series = scrape(PrometheusExporter(service, {"1"}, {.series = 300}));
  EXPECT_LE(series.size(), 300u);
  EXPECT_GT(series.at("memprofd_held_back_blocks{kind=\"identity\"}"), 0);
}

// Existing series stay, and later ones do not displace them.
TEST(PrometheusText, TheNewestTargetsAreHeldBack) {
  auto targets = many_targets(150);
  FakeService service(targets);
  const PrometheusExporter exporter(service, {"1"});
  const auto has_counters = [](const std::map<std::string, double>& series, int pid) {
    return series.contains(
        absl::StrCat("memprofd_live_bytes{pid=\"", pid, "\",program=\"program", pid % 6, "\"}"));
  };
  auto series = scrape(exporter);
  EXPECT_TRUE(has_counters(series, 1));
  EXPECT_FALSE(has_counters(series, 150));
  targets.erase(targets.begin(), targets.begin() + 100);
  service.set(targets);
  EXPECT_TRUE(has_counters(scrape(exporter), 150)) << "there is room now";
}

TEST(PrometheusText, SitesShareWhatRoomThereIs) {
  FakeService service(many_targets(4));
  const PrometheusExporter exporter(service, {"1"}, {.series = 600});
  const auto series = scrape(exporter);
  EXPECT_LE(series.size(), 600u);
  double live = 0;
  int named = 0;
  for (const auto& [name, value] : series) {
    if (!name.starts_with("memprofd_site_live_bytes{pid=\"1\"")) continue;
    live += value;
    named += name.find("function=\"other\"") == name.npos ? 1 : 0;
  }
  EXPECT_EQ(named, 1);
  EXPECT_EQ(live, 10403 * kSampleBytes) << "the rest is in other";
}

TEST(PrometheusText, CountersOfAnEndedTargetStayForSomeMinutes) {
  auto ended = fixed_target();
  ended->info.state = TargetState::kExited;
  FakeService service({ended});
  const std::string counter = "memprofd_promoted_bytes_total{";
  EXPECT_NE(PrometheusExporter(service, {"1"}).text().find(counter), std::string::npos);
  const PrometheusExporter later(service, {"1"}, {.last_counters = {}});
  EXPECT_EQ(later.text().find(counter), std::string::npos);
  EXPECT_NE(later.text().find("memprofd_target_end{"), std::string::npos);
}

TEST(PrometheusText, HasTheProgramsThatRunByOutcome) {
  FakeService service({fixed_target(1)});
  service.found.add({.pid = 1, .start_time_ticks = testing::kStartTicks});
  service.found.add({.pid = 2, .outcome = Discovery::kBytecode});
  service.found.add({.pid = 3, .outcome = Discovery::kNoRule});
  service.found.ended_early = 8;
  auto series = scrape(PrometheusExporter(service, {"1"}));
  const auto count = [&](const char* outcome) {
    return series.at(absl::StrCat("memprofd_discovered_programs{outcome=\"", outcome, "\"}"));
  };
  EXPECT_EQ(count("profiled"), 1);
  EXPECT_EQ(count("waiting"), 0);
  EXPECT_EQ(count("bytecode"), 1);
  EXPECT_EQ(count("no_rule"), 1);
  EXPECT_EQ(count("version"), 0);
  EXPECT_EQ(series.at("memprofd_programs_ended_early_total"), 8);
}

TEST(PrometheusText, TheServersCount) {
  FakeService service;
  const auto stats = std::make_shared<ServerStats>();
  const RequestCounts::Kind scrapes{{"handler", "/metrics"}, {"method", "GET"}};
  stats->http.end(scrapes, "200", 0.03);
  stats->http.end(scrapes, "200", 75);
  const RequestCounts::Kind attach{
      {"grpc_type", "unary"}, {"grpc_service", "memprof.v1.Profiler"}, {"grpc_method", "Attach"}};
  stats->grpc.begin(attach);
  stats->grpc.begin(attach);
  stats->grpc.end(attach, "NotFound", 0.001);
  stats->grpc_cut_off = 2;
  const auto series = scrape(PrometheusExporter(service, {"1"}, {}, stats));
  EXPECT_EQ(
      series.at("memprofd_http_requests_total{handler=\"/metrics\",method=\"GET\",code=\"200\"}"),
      2);
  const auto took = [&](const std::string& what) {
    return series.at("memprofd_http_request_duration_seconds_" + what);
  };
  const std::string labels = "{handler=\"/metrics\",method=\"GET\"";
  EXPECT_EQ(took("bucket" + labels + ",le=\"0.01\"}"), 0);
  EXPECT_EQ(took("bucket" + labels + ",le=\"0.05\"}"), 1);
  EXPECT_EQ(took("bucket" + labels + ",le=\"60\"}"), 1);
  EXPECT_EQ(took("bucket" + labels + ",le=\"+Inf\"}"), 2);
  EXPECT_EQ(took("sum" + labels + "}"), 75.03);
  const std::string method =
      "{grpc_type=\"unary\",grpc_service=\"memprof.v1.Profiler\",grpc_method=\"Attach\"";
  EXPECT_EQ(series.at("grpc_server_started_total" + method + "}"), 2);
  EXPECT_EQ(series.at("grpc_server_handled_total" + method + ",grpc_code=\"NotFound\"}"), 1);
  EXPECT_EQ(series.at("grpc_server_handling_seconds_bucket" + method + ",le=\"0.001\"}"), 1);
  EXPECT_EQ(series.at("memprofd_cut_off_connections_total{server=\"grpc\"}"), 2);
}

TEST(PrometheusText, DeliberateOmissionsAreNotLosses) {
  auto target = std::make_shared<ProfileSnapshot>(*fixed_target());
  target->drops.set(Drop::kFollowSessionEnd, 3000);
  FakeService service({target});
  const auto series = scrape(PrometheusExporter(service, {"1"}));
  const std::string labels = "{stage=\"follow\",reason=\"session_end\"}";
  EXPECT_EQ(series.at("memprofd_given_up_events_total" + labels), 3000);
  EXPECT_FALSE(series.contains("memprofd_dropped_events_total" + labels));
  EXPECT_FALSE(
      series.contains("memprofd_given_up_events_total{stage=\"follow\",reason=\"lost_records\"}"));
}

TEST(PrometheusText, DropsOfForgottenTargetsStayInTheSum) {
  const std::string name =
      "memprofd_dropped_events_total{stage=\"kernel\",reason=\"capture_ring_full\"}";
  FakeService service({fixed_target(1), fixed_target(2)});
  const PrometheusExporter exporter(service, {"1"});
  EXPECT_EQ(scrape(exporter)[name], 14);
  service.set({fixed_target(2)});
  auto series = scrape(exporter);
  EXPECT_EQ(series[name], 14);
  EXPECT_FALSE(series.contains("memprofd_target_up{pid=\"1\",program=\"server.exe\"}"));
  auto again = fixed_target(2);  // another attach to the same pid, 7 new drops
  again->attached_ns += 1;
  service.set({again});
  EXPECT_EQ(scrape(exporter)[name], 21);
}

TEST(PrometheusText, NewAttachStartsWithoutTheOldSites) {
  FakeService service({fixed_target()});
  const PrometheusExporter exporter(service, {"1"});
  scrape(exporter);
  auto again = fixed_target();
  again->attached_ns += 1;
  again->rows.clear();
  again->gc = GcStats{};
  service.set({again});
  auto series = scrape(exporter);
  EXPECT_EQ(series["memprofd_site_allocated_bytes_total{pid=\"4242\",program=\"server.exe\","
                   "function=\"other\","
                   "location=\"\"}"],
            0);
  EXPECT_FALSE(series.contains(
      "memprofd_ocaml_minor_collections_total{pid=\"4242\",program=\"server.exe\"}"));
}

TEST(PrometheusText, OnePidTwiceIsShownOnce) {
  auto old = fixed_target();
  old->attached_ns -= 1;
  old->info.comm = "old";
  FakeService service({old, fixed_target()});
  const std::string text = PrometheusExporter(service, {"1"}).text();
  parse(text);  // fails on duplicates
  EXPECT_EQ(text.find("comm=\"old\""), std::string::npos);
}

}  // namespace
}  // namespace memprofd
