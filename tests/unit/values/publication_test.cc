// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/publication.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/values/published_control.h"
#include "tests/unit/values/fake_registry.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kAddress = kRegistryAddress;
constexpr TickMoment kNow = kRegistryNow;
using Registry = FakeRegistry;

TEST(Publication, SumsUpLanes) {
  Registry registry;
  registry.add(MEMPROF_SLOT_POINT, "requests");
  std::strcpy(registry.it->slots[0].labels, "route=/a=b\nmethod=get\nnonsense");
  std::strcpy(registry.it->slots[0].unit, "requests");
  registry.it->head.lanes_used = 2;
  registry.it->head.shared_used = 1;
  registry.it->lanes[0].points[0].hits = 2 * 5 + 1;  // OCaml 4 has an integer there
  registry.it->lanes[1].points[0].hits = static_cast<std::uint64_t>(-4);
  registry.it->lanes[MEMPROF_VALUES_SHARED_LANE].points[0].hits = 200;
  registry.it->lanes[2].points[0].hits = 2000;  // not in use
  const Publication report = registry.report();
  ASSERT_EQ(report.all.size(), 1u);
  EXPECT_EQ(report.all[0].hits, 5 - 2 + 100);
  EXPECT_EQ(report.all[0].full_name(), "requests{route=/a=b,method=get}");
  EXPECT_EQ(report.all[0].unit, "requests");
}

TEST(Publication, TimersCountWhatRuns) {
  Registry registry;
  registry.add(MEMPROF_SLOT_TIMER, "t").cell = 0;
  registry.add(MEMPROF_SLOT_PHASE, "p").cell = 1;
  registry.it->head.timers_used = 2;
  registry.it->head.lanes_used = 2;
  registry.it->lanes[0].timers[0] = {
      .starts = 3, .stops = 2, .sum_ticks = 500 - std::uint64_t{9'000}, .max_ticks = 400};
  registry.it->lanes[1].timers[0] = {.starts = 1, .stops = 1, .sum_ticks = 100, .max_ticks = 50};
  // This phase began after the clock was read.
  registry.it->lanes[0].timers[1] = {.starts = 1, .sum_ticks = 0 - std::uint64_t{10'001}};
  const Publication report = registry.report();
  ASSERT_EQ(report.all.size(), 2u);
  EXPECT_EQ(report.all[0].starts, 4u);
  EXPECT_EQ(report.all[0].stops, 3u);
  EXPECT_DOUBLE_EQ(report.all[0].seconds, (500 + 100 + 1000) * 0.5e-9);
  EXPECT_DOUBLE_EQ(report.all[0].max_seconds, 200e-9);
  EXPECT_EQ(report.all[1].kind, PublishedValue::Kind::kPhase);
  EXPECT_EQ(report.all[1].seconds, 0);
  registry.it->head.clock = MEMPROF_VALUES_MONOTONIC_NS;
  EXPECT_DOUBLE_EQ(registry.report().all[0].max_seconds, 400e-9);
}

// Values of the requested program; domains that have not counted are omitted.
TEST(Publication, ReportsEachDomainsShare) {
  Registry registry;
  registry.add(MEMPROF_SLOT_POINT, "requests");
  registry.add(MEMPROF_SLOT_TIMER, "t").cell = 0;
  registry.it->head.timers_used = 1;
  registry.it->head.lanes_used = 3;
  registry.it->head.shared_used = 1;
  registry.it->lanes[0].points[0].hits = 1;  // none yet, in OCaml 4
  registry.it->lanes[2].points[0].hits = static_cast<std::uint64_t>(-8);
  registry.it->lanes[MEMPROF_VALUES_SHARED_LANE].points[0].hits = 20;
  registry.it->lanes[1].timers[0] = {
      .starts = 2, .stops = 1, .sum_ticks = 600 - std::uint64_t{9'000}, .max_ticks = 400};
  EXPECT_TRUE(registry.report().all[0].lanes.empty());
  const Publication report = read_publication(registry, kAddress, kNow, true).value();
  const auto& [requests, timer] = std::tie(report.all[0].lanes, report.all[1].lanes);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].lane, 2u);
  EXPECT_EQ(requests[0].hits, -4);
  EXPECT_EQ(requests[1].lane, MEMPROF_VALUES_SHARED_LANE);
  EXPECT_EQ(requests[1].hits, 10);
  ASSERT_EQ(timer.size(), 1u);
  EXPECT_EQ(timer[0].lane, 1u);
  EXPECT_EQ(timer[0].starts - timer[0].stops, 1u);
  EXPECT_DOUBLE_EQ(timer[0].seconds, (600 + 1'000) * 0.5e-9);
  EXPECT_DOUBLE_EQ(timer[0].max_seconds, 200e-9);
}

TEST(Publication, ReadsAgainWhatIsBeingWritten) {
  Registry registry;
  registry.add(MEMPROF_SLOT_TIMER, "t").cell = 0;
  registry.it->head.timers_used = 1;
  memprof_timer_cell& cell = registry.it->lanes[0].timers[0];
  cell = {.done = 6, .starts = 1, .stops = 1, .sum_ticks = 7, .seq = 7};
  registry.after_read = [&] {
    if (registry.reads == 7) cell = {.done = 8, .starts = 2, .stops = 2, .sum_ticks = 8, .seq = 8};
  };
  Publication report = registry.report();
  EXPECT_EQ(report.all[0].stops, 2u);
  EXPECT_FALSE(report.all[0].is_torn);
  // A writer that never ends.
  cell.seq = 9;
  registry.after_read = nullptr;
  report = registry.report();
  EXPECT_TRUE(report.all[0].is_torn);
}

// A copy of several cache lines may have a later one from before the first.
TEST(Publication, ReadsAgainWhatWasNotReadInOrder) {
  Registry registry;
  memprof_slot& slot = registry.add(MEMPROF_SLOT_VALUE, "v");
  slot.type = MEMPROF_VALUE_STRING;
  slot.state = MEMPROF_VALUE_THERE;
  slot.done = slot.seq = 4;
  slot.text_bytes = 4;
  std::strncpy(slot.text, "newO", sizeof slot.text);
  registry.after_read = [&] {
    if (registry.reads == 2) std::strncpy(slot.text, "new!", sizeof slot.text);
  };
  const Publication report = registry.report();
  EXPECT_EQ(report.all[0].value.text, "new!");
  EXPECT_FALSE(report.all[0].is_torn);
}

TEST(Publication, ALineReadOutOfOrderIsReportedLater) {
  Registry registry;
  memprof_log_entry& entry = registry.it->log[0];
  registry.it->head.log_next = 1;
  entry.done = entry.seq = 2;
  entry.text_bytes = 4;
  std::strncpy(entry.text, "newO", sizeof entry.text);
  registry.after_read = [&] {
    if (registry.last_read >= kRegistryAddress + offsetof(memprof_values, log)) entry.text[3] = '!';
  };
  EXPECT_TRUE(registry.report().lines.empty());
  ASSERT_EQ(registry.report().lines.size(), 1u);
  EXPECT_EQ(registry.report().lines[0].text, "new!");
}

TEST(Publication, HasValuesThatAreSet) {
  Registry registry;
  const auto add = [&](const char* name, memprof_value_type type, std::uint64_t number) -> auto& {
    memprof_slot& slot = registry.add(MEMPROF_SLOT_VALUE, name);
    slot.type = type;
    slot.number = number;
    slot.state = MEMPROF_VALUE_THERE;
    slot.changed_ns = 4'000;
    return slot;
  };
  add("int", MEMPROF_VALUE_INT, static_cast<std::uint64_t>(-3));
  add("float", MEMPROF_VALUE_FLOAT, std::bit_cast<std::uint64_t>(2.5));
  memprof_slot& text = add("string", MEMPROF_VALUE_STRING, 0);
  std::memset(text.text, 'x', sizeof text.text);
  text.text_bytes = 1'000'000'000;
  add("never", MEMPROF_VALUE_INT, 5).state = MEMPROF_VALUE_NEVER;
  add("raised", MEMPROF_VALUE_INT, 5).state = MEMPROF_VALUE_RAISED;
  add("heap", MEMPROF_VALUE_INT, 5).source = MEMPROF_VALUE_OCAML;
  const Publication report = registry.report();
  ASSERT_EQ(report.all.size(), 6u);
  EXPECT_EQ(report.all[0].value.integer, -3);
  EXPECT_EQ(report.all[0].changed_ns, 4'000u);
  EXPECT_EQ(report.all[1].value.number, 2.5);
  EXPECT_EQ(report.all[2].value.text, std::string(MEMPROF_SLOT_TEXT, 'x'));
  EXPECT_TRUE(report.all[2].value.is_cut);
  EXPECT_EQ(report.all[3].value.why, WhyUnread::kNotYet);
  EXPECT_FALSE(report.all[3].changed_ns);
  EXPECT_EQ(report.all[4].value.why, WhyUnread::kRaised);
  EXPECT_TRUE(report.all[5].is_on_heap());
}

TEST(Publication, HasTheLastLines) {
  Registry registry;
  registry.add(MEMPROF_SLOT_PHASE, "load").cell = 0;
  registry.it->head.timers_used = 1;
  const auto put = [&](std::uint64_t number, memprof_log_kind kind, const std::string& text) {
    memprof_log_entry& entry = registry.it->log[number % MEMPROF_VALUES_LOG];
    entry = {.done = 2 * (number + 1), .ticks = 8'000, .kind = kind, .slot = 0};
    entry.seq = entry.done;
    entry.text_bytes = static_cast<std::uint32_t>(text.size());
    std::memcpy(entry.text, text.data(), text.size());
  };
  put(300, MEMPROF_LOG_LINE, "after");
  put(299, MEMPROF_LOG_PHASE_ENTER, "");
  put(290, MEMPROF_LOG_LINE, "is written");
  registry.it->log[290 % MEMPROF_VALUES_LOG].seq |= 1;
  put(291, static_cast<memprof_log_kind>(77), "");
  registry.it->head.log_next = 301;
  registry.it->head.log_lost = 4;
  const Publication report = registry.report();
  ASSERT_EQ(report.lines.size(), 2u);
  EXPECT_EQ(report.lines[0].text, "load");
  EXPECT_EQ(report.lines[0].kind, MEMPROF_LOG_PHASE_ENTER);
  EXPECT_EQ(report.lines[1].text, "after");
  EXPECT_EQ(report.lines[1].number, 300u);
  EXPECT_DOUBLE_EQ(report.lines[1].seconds_ago, 1e-6);
  EXPECT_EQ(report.lost_lines, 4u);
}

TEST(Publication, CountsWhatHasNoPlace) {
  Registry registry;
  registry.it->head.slots_used = MEMPROF_VALUES_OWN_SLOTS;
  for (std::uint32_t i = 0; i < MEMPROF_VALUES_OWN_SLOTS; ++i) {
    registry.it->slots[i].kind = i % 2 == 0 ? MEMPROF_SLOT_POINT : 99;
  }
  registry.it->head.refused = 5;
  memprof_slot& other = registry.it->slots[MEMPROF_VALUES_OTHER_POINTS];
  other.kind = MEMPROF_SLOT_POINT;
  std::strcpy(other.name, "other");
  registry.it->lanes[0].points[MEMPROF_VALUES_OTHER_POINTS].hits = 8;
  const Publication report = registry.report();
  EXPECT_EQ(report.malformed, MEMPROF_VALUES_OWN_SLOTS / 2 + 1);
  EXPECT_EQ(report.refused, 5u);
  EXPECT_EQ(report.all.back().name, "other");
  EXPECT_EQ(report.all.back().hits, 4);
}

TEST(Publication, RefusesMemoryThatIsNotARegistry) {
  for (const auto field : {&memprof_values_head::abi, &memprof_values_head::slot_bytes,
                           &memprof_values_head::lane_bytes, &memprof_values_head::slots_used,
                           &memprof_values_head::timers_used, &memprof_values_head::lanes_used}) {
    Registry registry;
    registry.it->head.*field = 0xffffffff;
    EXPECT_TRUE(absl::IsFailedPrecondition(read_publication(registry, kAddress, kNow).status()));
  }
}

// With any contents, reading ends and stays within the registry.
TEST(Publication, IsTotal) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    Registry registry;
    const memprof_values_head head = registry.it->head;
    auto* words = reinterpret_cast<std::uint64_t*>(registry.it.get());
    const std::size_t filled = offsetof(memprof_values, histograms[2]);
    for (std::size_t i = 0; i < filled / 8; ++i) words[i] = random();
    registry.it->head = head;
    registry.it->head.slots_used = random() % (MEMPROF_VALUES_OWN_SLOTS + 1);
    registry.it->head.timers_used = random() % MEMPROF_VALUES_TIMERS;
    registry.it->head.lanes_used = random() % MEMPROF_VALUES_LANES;
    registry.it->head.log_next = random();
    registry.it->head.refused = round % 2;
    registry.it->head.histogram_bytes = round % 3 == 0 ? 0 : sizeof(memprof_timer_histogram);
    for (memprof_slot& slot : registry.it->slots) {
      slot.kind %= 6;
      slot.cell %= MEMPROF_VALUES_TIMERS + 1;
      if (round % 3 != 0) slot.type %= 6, slot.source %= 4, slot.state %= 3;
    }
    registry.report();
    EXPECT_LT(registry.reads, 16'000) << "three pieces at each try";
  }
}

TEST(Publication, InformsTheProgramOfAViewer) {
  Registry registry;
  const std::uint64_t second = 1'000'000'000;
  EXPECT_TRUE(*observe_report(registry, kAddress, second));
  EXPECT_EQ(registry.it->head.observed_until_ns, 61 * second);
  EXPECT_FALSE(*observe_report(registry, kAddress, 2 * second));
  EXPECT_EQ(registry.it->head.observed_until_ns, 61 * second) << "not each time";
  EXPECT_FALSE(*observe_report(registry, kAddress, 40 * second));
  EXPECT_EQ(registry.it->head.observed_until_ns, 100 * second);
  registry.it->head.magic = 0;
  EXPECT_FALSE(*observe_report(registry, kAddress, 500 * second)) << "nothing is written there";
  EXPECT_EQ(registry.it->head.observed_until_ns, 100 * second);
}

TEST(PublishedControl, ChangesWhatIsMeant) {
  Registry registry;
  std::strcpy(registry.add(MEMPROF_SLOT_POINT, "requests").labels, "route=/a\nmethod=get");
  std::strcpy(registry.add(MEMPROF_SLOT_POINT, "requests").labels, "route=/b\nmethod=get");
  memprof_slot& function = registry.add(MEMPROF_SLOT_VALUE, "queue");
  function.source = MEMPROF_VALUE_FUNCTION;
  function.period_ms = 1000;
  memprof_slot& value = registry.add(MEMPROF_SLOT_VALUE, "table");
  value.source = MEMPROF_VALUE_OCAML;
  const auto control = [&](const PublishedControl& what) {
    return control_report(registry, kAddress, what);
  };
  const PublishedControl off{.labels = {{"method", "get"}, {"route", "/b"}}, .enabled = false};
  EXPECT_EQ(*control(off), 1u);
  EXPECT_EQ(*control(off), 1u) << "it is so already";
  EXPECT_EQ(registry.writes, 1) << "so it is not written again";
  EXPECT_EQ(*control({.pattern = "queue|table", .enabled = false, .period_ms = 50}), 2u);
  Publication report = registry.report();
  EXPECT_FALSE(report.all[0].is_off());
  EXPECT_TRUE(report.all[1].is_off());
  EXPECT_TRUE(report.all[2].is_off());
  EXPECT_EQ(report.all[2].period_ms, 50u);
  EXPECT_TRUE(report.all[3].is_off());
  EXPECT_FALSE(report.all[3].is_on_heap()) << "it is not looked at";
  EXPECT_EQ(report.all[3].value.why, WhyUnread::kOff);
  EXPECT_EQ(report.all[3].period_ms, 0u) << "no function";
  EXPECT_EQ(*control({.pattern = R"(^requests\{route=/b)", .enabled = true}), 1u);
  EXPECT_EQ(*control({.pattern = "queue", .period_ms = 0}), 1u);
  report = registry.report();
  EXPECT_FALSE(report.all[1].is_off());
  EXPECT_TRUE(report.all[2].is_off()) << "only its period was changed";
  EXPECT_EQ(report.all[2].period_ms, 1000u);
  EXPECT_EQ(*control({.enabled = true}), 4u) << "all";
  EXPECT_TRUE(registry.report().all[3].is_on_heap());
}

TEST(PublishedControl, RefusesWhatMakesNoSense) {
  Registry registry;
  registry.add(MEMPROF_SLOT_POINT, "requests");
  const auto code = [&](const PublishedControl& what) {
    return control_report(registry, kAddress, what).status().code();
  };
  EXPECT_EQ(code({.pattern = "requests"}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.pattern = "(", .enabled = true}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.period_ms = kMaxPeriodMs + 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.pattern = "no", .enabled = true}), absl::StatusCode::kNotFound);
  EXPECT_EQ(code({.labels = {{"route", "/a"}}, .enabled = true}), absl::StatusCode::kNotFound);
  registry.it->head.magic = 0;
  EXPECT_EQ(code({.enabled = false}), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(registry.writes, 0);
}

TEST(Publication, ResumesAPause) {
  Registry registry;
  registry.it->head.pauses = 3;
  registry.it->head.waiting = 2;
  registry.it->head.log_next = 1;
  registry.it->log[0] = {.done = 2, .ticks = 9'000, .kind = MEMPROF_LOG_PAUSE, .text_bytes = 4};
  std::strcpy(registry.it->log[0].text, "here");
  registry.it->log[0].seq = 2;
  const Publication report = registry.report();
  EXPECT_EQ(report.waiting, 2u);
  ASSERT_EQ(report.lines.size(), 1u);
  EXPECT_EQ(report.lines[0].kind, MEMPROF_LOG_PAUSE);
  EXPECT_EQ(report.lines[0].text, "here");
  EXPECT_EQ(*resume_report(registry, kAddress), 2u);
  EXPECT_EQ(registry.it->head.resumed, 3u);
  EXPECT_EQ(registry.it->head.observed_until_ns, 0u);
  registry.it->head.magic = 0;
  registry.it->head.pauses = 5;
  EXPECT_FALSE(resume_report(registry, kAddress).ok());
  EXPECT_EQ(registry.it->head.resumed, 3u) << "nothing is written there";
}

}  // namespace
}  // namespace memprofd
