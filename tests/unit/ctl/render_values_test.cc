// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/render/render_values.h"

#include <gtest/gtest.h>

#include "daemon/ctl/render/render_graph.h"
#include "daemon/ctl/render/render_published.h"
#include "daemon/ctl/render/render_watch.h"
#include "daemon/export/api/values_service.h"
#include "tests/kit/fake_service.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

Value integer(std::int64_t n) { return {.kind = ValueKind::kInteger, .integer = n}; }

std::string text(const Value& value) { return ctl::value_text(to_proto(value)); }

TEST(ValueText, IsInTheMannerOfOCaml) {
  EXPECT_EQ(text(integer(-3)), "-3");
  EXPECT_EQ(text({.kind = ValueKind::kFloat, .number = 2}), "2.00000000000");
  EXPECT_EQ(text({.kind = ValueKind::kReference, .size = 1, .fields = {integer(5)}}), "ref 5");
  EXPECT_EQ(text({.kind = ValueKind::kBlock, .size = 9, .is_cut = true, .fields = {integer(1)}}),
            "{1; ..}, 9 fields");
  EXPECT_EQ(text({.kind = ValueKind::kBlock, .size = 1, .tag = 2, .fields = {integer(1)}}),
            "tag 2 {1}");
  EXPECT_EQ(text({.kind = ValueKind::kString, .size = 12}), "string of 12 bytes");
  EXPECT_EQ(text({.kind = ValueKind::kString, .size = 3, .text = "a\x1b\n"}), "\"a\\033\\n\"");
  EXPECT_EQ(text({.kind = ValueKind::kList, .size = 2, .fields = {integer(1), integer(2)}}),
            "list of 2 [1; 2]");
  EXPECT_EQ(text({.kind = ValueKind::kTable,
                  .size = 5,
                  .buckets = 8,
                  .empty_buckets = 6,
                  .longest_chain = 3,
                  .chains_counted = true}),
            "Hashtbl of 5 in 8 buckets, 6 empty, longest chain 3");
  Value table{.kind = ValueKind::kTable, .longest_chain = 3, .chains_counted = true};
  table.chains = {6, 1, 0, 1};
  EXPECT_EQ(text(table),
            "Hashtbl of 0 in 0 buckets, 0 empty, longest chain 3; chains of 1 to 3: 1 0 1");
  table.chains = {6, 5};
  EXPECT_TRUE(text(table).ends_with("chain 3; chains of 1: 5")) << text(table);
  table.chains.resize(Value::kCountedChains + 1, 2);
  EXPECT_TRUE(
      text(table).ends_with("; chains of 1 to 15: 5 2 2 2 2 2 2 2 2 2 2 2 2 2 2, longer: 2"))
      << text(table);
  EXPECT_EQ(text({.kind = ValueKind::kCustom, .integer = 7, .text = "_j"}), "7L");
  EXPECT_EQ(text({.kind = ValueKind::kUnread, .why = WhyUnread::kMoving}),
            "not read: the collector was faster at each try");
  EXPECT_EQ(text({.kind = ValueKind::kUnread, .why = WhyUnread::kDeep}), "..");
}

TEST(GrownValues, AreThoseThatGrewTheLargestFirst) {
  const auto values = [](std::uint64_t pages, std::uint64_t orders) {
    pb::ListValuesResponse response;
    for (const auto& [name, size] :
         {std::pair("Orders[1]", orders), std::pair("Pages[0]", pages)}) {
      pb::NamedValue& named = *response.add_values();
      named.set_name(name);
      named.mutable_value()->set_kind(pb::VALUE_KIND_QUEUE);
      named.mutable_value()->set_size(size);
    }
    return response;
  };
  EXPECT_EQ(ctl::grown_values_text(values(5, 7), values(5, 7), 60), "");
  EXPECT_EQ(ctl::grown_values_text({}, values(5, 7), 60), "");
  const std::string both = ctl::grown_values_text(values(5, 7), values(95, 9), 60);
  EXPECT_TRUE(both.starts_with("\nValues that are larger than ")) << both;
  EXPECT_LT(both.find("Pages[0]"), both.find("Orders[1]")) << both;
  EXPECT_NE(both.find("(+90)\n"), std::string::npos) << both;
  const std::string one = ctl::grown_values_text(values(5, 7), values(3, 9), 60);
  EXPECT_EQ(one.find("Pages[0]"), std::string::npos) << one;
}

TEST(ValueText, EveryKindHasWords) {
  for (int kind = 0; kind <= static_cast<int>(ValueKind::kUnread); ++kind) {
    Value value{.kind = static_cast<ValueKind>(kind)};
    EXPECT_EQ(ctl::value_text(to_proto(value)).find("unknown to"), std::string::npos) << kind;
  }
}

TEST(ValuesService, AsksAndAnswers) {
  testing::FakeService service;
  service.values = {.values = {{.module = "Cache", .field = 3, .value = integer(4)},
                               {.module = "", .field = 0, .value = integer(5)}},
                    .fields = 20,
                    .left_out = 2,
                    .repeated = 3,
                    .not_reached = 4};
  ValuesService values(service);
  pb::ListValuesRequest request;
  EXPECT_FALSE(values.list_values(request, request.pid(), [] { return true; }).ok()) << "no pid";
  request.set_pid(42);
  request.set_pattern("Cache");
  request.set_with_contents(true);
  const auto answer = values.list_values(request, request.pid(), [] { return true; });
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ(answer->values_size(), 2);
  EXPECT_EQ(answer->values(0).name(), "Cache[3]");
  EXPECT_EQ(answer->values(1).name(), "(unknown)[0]");
  EXPECT_EQ(answer->values(1).value().integer(), 5);
  const std::string text = ctl::render_values(*answer, {});
  EXPECT_EQ(
      text,
      "NAME          VALUE\nCache[3]      4\n(unknown)[0]  5\n2 more; --limit shows them\n"
      "4 names were not reached: collections are too frequent; select fewer with a pattern\n");
  request.set_graph_nodes(10'001);
  EXPECT_FALSE(values.list_values(request, request.pid(), [] { return true; }).ok());
  request.set_graph_nodes(0);
  request.set_limit(1'000'000);
  EXPECT_FALSE(values.list_values(request, request.pid(), [] { return true; }).ok());
}

TEST(ValuesService, AdjustsWhatIsMeant) {
  testing::FakeService service;
  ValuesService values(service);
  pb::AdjustRequest request;
  EXPECT_FALSE(values.adjust(request, request.pid()).ok()) << "no pid";
  request.set_pid(42);
  request.set_pattern("queue");
  request.add_labels()->set_key("route");
  request.set_enabled(false);
  EXPECT_EQ(values.adjust(request, request.pid())->count(), 2u);
  request.clear_enabled();
  request.set_period_ms(0);
  EXPECT_EQ(values.adjust(request, request.pid())->count(), 2u);
  EXPECT_EQ(service.calls(),
            (std::vector<std::string>{"adjust 42 queue 1 off 7", "adjust 42 queue 1 as it is 0"}));
}

TEST(GraphText, ShowsWhatIsSharedOnce) {
  ValueGraph graph;
  graph.nodes.push_back({.value = {.kind = ValueKind::kBlock, .size = 3},
                         .fields = {{.node = 2}, {.node = 2}, {.value = integer(7)}},
                         .references = 1});
  graph.nodes.push_back({.value = {.kind = ValueKind::kBlock, .size = 2, .tag = 1},
                         .fields = {{.node = 3}, {.node = 1}},
                         .references = 2});
  graph.nodes.push_back(
      {.value = {.kind = ValueKind::kString, .size = 2, .text = "a\""}, .references = 1});
  graph.is_cut = true;
  const pb::Value value =
      to_proto({.kind = ValueKind::kBlock, .graph = std::make_shared<const ValueGraph>(graph)});
  EXPECT_EQ(ctl::graph_text(value),
            "#1 {3 fields}\n  #2 tag 1 {2 fields}\n    \"a\\\"\"\n    #1\n  #2\n  7\n"
            "..: more blocks than shown\n");
  EXPECT_EQ(ctl::graph_dot(value),
            "digraph value {\n  node [shape=box];\n  n1 [label=\"{3 fields} * * 7\"];\n"
            "  n1 -> n2 [label=0];\n  n1 -> n2 [label=1];\n"
            "  n2 [label=\"tag 1 {2 fields} * *\"];\n  n2 -> n3 [label=0];\n"
            "  n2 -> n1 [label=1];\n  n3 [label=\"\\\"a\\\\\\\"\\\"\"];\n}\n");
}

pb::ListValuesResponse reported(PublishedValue one) {
  testing::FakeService service;
  service.values.report.all = {std::move(one)};
  pb::ListValuesRequest request;
  request.set_pid(1);
  return ValuesService(service).list_values(request, request.pid(), [] { return true; }).value();
}

std::string text(PublishedValue one) {
  return ctl::published_text(reported(std::move(one)).reported(0));
}

TEST(ReportedText, SaysWhatIsEachDomains) {
  const auto values = reported({.kind = PublishedValue::Kind::kTimer,
                                .name = "t",
                                .starts = 3,
                                .stops = 2,
                                .seconds = 3,
                                .lanes = {{.lane = 4, .starts = 2, .stops = 2, .seconds = 2},
                                          {.lane = 127, .starts = 1, .seconds = 1}}});
  EXPECT_EQ(ctl::render_values(values, {.width = 80}),
            "NAME                           VALUE\n"
            "t                              2 times, 3.00 s; 1 runs\n"
            "  domain 4                     2 times, 2.00 s, mean 1.00 s\n"
            "  C code, domains from 127 on  0 times, 1.00 s; 1 runs\n");
}

TEST(ReportedText, SaysWhatItIs) {
  using Kind = PublishedValue::Kind;
  EXPECT_EQ(text({.kind = Kind::kPoint, .unit = "requests", .hits = 12}), "12 requests");
  EXPECT_EQ(
      text({.kind = Kind::kTimer, .starts = 4, .stops = 4, .seconds = 2, .max_seconds = 0.25}),
      "4 times, 2.00 s, mean 500 ms, longest 250 ms");
  EXPECT_EQ(text({.kind = Kind::kTimer,
                  .starts = 3,
                  .stops = 3,
                  .seconds = 1.5,
                  .max_seconds = 0.75,
                  .durations = testing::fixed_durations()}),
            "3 times, 1.50 s, mean 500 ms, 50 % within 671 ms, 90 % 805 ms, 99 % 805 ms, "
            "longest 750 ms");
  EXPECT_EQ(text({.kind = Kind::kPhase, .starts = 1, .seconds = 0.0025}),
            "0 times, 2.5 ms; 1 runs");
  EXPECT_EQ(text({.kind = Kind::kTimer, .starts = 0, .stops = 2, .is_torn = true}),
            "2 times, 0 ns, mean 0 ns (changing)");
  EXPECT_EQ(text({.kind = Kind::kValue, .type = MEMPROF_VALUE_BOOL, .value = integer(0)}), "false");
  EXPECT_EQ(text({.kind = Kind::kPoint, .hits = 3, .control = MEMPROF_CONTROL_OFF | 5}), "3 (off)");
  EXPECT_EQ(text({.kind = Kind::kValue,
                  .control = MEMPROF_CONTROL_OFF,
                  .value = {.kind = ValueKind::kUnread, .why = WhyUnread::kOff}}),
            "not read: it is switched off");
  EXPECT_EQ(
      text({.kind = Kind::kTag, .value = {.kind = ValueKind::kTag, .size = 3, .bytes = 2048}}),
      "3 marked, 2.00 KiB");
  EXPECT_EQ(text({.kind = Kind::kTag,
                  .value = {.kind = ValueKind::kTag,
                            .size = 3,
                            .is_longer = true,
                            .bytes = 2048,
                            .is_more_memory = true}}),
            "3 marked or more, 2.00 KiB or more");
  EXPECT_EQ(text({.kind = Kind::kValue,
                  .unit = "jobs",
                  .type = MEMPROF_VALUE_INT,
                  .value = integer(7),
                  .changed_ns = 0})
                .substr(0, 8),
            "7 jobs, ");
  EXPECT_EQ(text({.kind = Kind::kValue, .unit = "jobs", .value = {.why = WhyUnread::kRaised}}),
            "not read: the function has raised an exception");
}

TEST(ReportedText, NamesCannotMoveTheCursor) {
  const auto values = reported({.name = "a\x1b[2J", .labels = {{"k", "v\n"}}});
  EXPECT_EQ(ctl::published_name(values.reported(0)), "a?[2J{k=v?}");
}

TEST(ReportedText, TheLastLinesAndWhatIsMissing) {
  testing::FakeService service;
  service.values = testing::fixed_report();
  service.values.report.all[0].labels = {{"route", "/a"}, {"pid", "own"}};
  service.values.report.lines.push_back(
      {.number = 9, .seconds_ago = 0.5, .kind = MEMPROF_LOG_PHASE_LEAVE, .text = "load"});
  service.values.report.lost_lines = 3;
  service.values.report.malformed = 4;
  pb::ListValuesRequest request;
  request.set_pid(1);
  const auto values =
      ValuesService(service).list_values(request, request.pid(), [] { return true; }).value();
  const std::string text = ctl::render_values(values, {});
  for (const char* line :
       {"requests{route=/a,pid=own}  12 requests\n", "\nLOG\n2.50 s ago  it's full\n",
        "500 ms ago  phase load ends\n", "3 lines were lost",
        "2 points, timers or values found no place", "4 names of the program are damaged"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  }
}

TEST(ModuleValues, AreListedByTheirSizeInColumnsThatFit) {
  pb::ListValuesResponse values;
  const auto add = [&](const std::string& name, const Value& value) {
    pb::NamedValue& named = *values.add_values();
    named.set_name(name);
    named.set_source_type(std::string(200, 't'));
    *named.mutable_value() = to_proto(value);
  };
  add("Counter.hits", {.kind = ValueKind::kReference, .size = 1, .fields = {integer(5)}});
  add("Queue.small", {.kind = ValueKind::kTable, .size = 7});
  add("Cache.pages",
      {.kind = ValueKind::kReference,
       .size = 1,
       .fields = {{.kind = ValueKind::kTable, .size = 18'000, .chains_counted = true}}});
  add("Audit.buffer", {.kind = ValueKind::kString, .size = 300});
  const std::string text = ctl::render_values(values, {.width = 200});
  const std::size_t pages = text.find("Cache.pages"), buffer = text.find("Audit.buffer"),
                    small = text.find("Queue.small"), hits = text.find("Counter.hits");
  EXPECT_LT(pages, buffer);
  EXPECT_LT(buffer, small);
  EXPECT_LT(small, hits);
  EXPECT_NE(hits, std::string::npos);
  EXPECT_EQ(text.find(std::string(61, 't')), std::string::npos);
  EXPECT_NE(ctl::render_values(values, {}).find(std::string(200, 't')), std::string::npos)
      << "whole where it is no terminal";
  const pb::ListValuesResponse before = values;
  values.mutable_values(1)->mutable_value()->set_size(19);
  const std::string later = ctl::render_values(values, {}, &before);
  EXPECT_LT(later.find("Queue.small"), later.find("Cache.pages")) << "it has grown";
  EXPECT_NE(later.find("Hashtbl of 19"), std::string::npos);
  EXPECT_NE(later.find(" (+12)"), std::string::npos) << later;
}

TEST(WatchedValues, ShowsWhatHasChanged) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  ctl::WatchedValues watched;
  const auto look = [&](std::int64_t hits, std::int64_t seconds) {
    return watched.update(reported({.name = "requests", .hits = hits}), seconds * kSecond);
  };
  EXPECT_EQ(look(5, 0), "00:00:00  requests  5\n");
  EXPECT_EQ(look(5, 1), "");
  EXPECT_EQ(look(25, 3), "00:00:03  requests  25, 10 a second\n");
  EXPECT_EQ(look(24, 4), "00:00:04  requests  24, -1 a second\n");
}

}  // namespace
}  // namespace memprofd
