// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/kit/full_length.h"
#include "tests/kit/stored_target.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kGrowthBytes = 1u << 20;

void expect_same_values(const ValueHistoryView& stored, const ValueHistoryView& now) {
  ASSERT_EQ(stored.series.size(), now.series.size());
  for (std::size_t i = 0; i < now.series.size(); ++i) {
    EXPECT_FALSE(*stored.series[i] < *now.series[i] || *now.series[i] < *stored.series[i]);
  }
  for (int tier = 0; tier < kHistoryTiers; ++tier) {
    const std::size_t ended = now.tiers[tier].size() - (tier == 0 && now.unfinished ? 1 : 0);
    ASSERT_EQ(stored.tiers[tier].size(), ended);
    for (std::size_t i = 0; i < ended; ++i) {
      const ValueWindow &a = *stored.tiers[tier][i], &b = *now.tiers[tier][i];
      EXPECT_EQ(a.begin_ns, b.begin_ns);
      EXPECT_EQ(a.end_ns, b.end_ns);
      EXPECT_EQ(a.last, b.last);
      EXPECT_EQ(a.high, b.high);
    }
  }
  EXPECT_EQ(stored.next_line, now.next_line);
  ASSERT_EQ(stored.lines.size(), now.lines.size());
  ASSERT_EQ(stored.phases.size(), now.phases.size());
  EXPECT_EQ(stored.lines.back()->number, now.lines.back()->number);
  EXPECT_EQ(stored.lines.back()->text, now.lines.back()->text);
  EXPECT_TRUE(stored.lines.back()->is_cut);
}

class TargetFileTest : public StoredTargetTest {};

TEST_F(TargetFileTest, HasEveryMomentThatWasWritten) {
  for (int second = 0; second < 120; ++second) {
    program_.run_second();
    if (second % 4 != 3) continue;
    const ProfileSnapshot now = snapshot();
    write(now);
    const ProfileSnapshotPtr stored = read();
    EXPECT_EQ(stored->info.comm, "shop");
    expect_same(*stored, now);
    if (second % 20 == 19) expect_same_history(*stored, now);
    if (HasFailure()) return;
  }
}

// Each attempt may fill the disk.
TEST_F(TargetFileTest, AFailingWriteIsTriedLessAndLess) {
  std::vector<int> tried;
  for (int room = 0; room < 48; ++room) {
    program_.run_second();
    const absl::Status status = writer_.write(snapshot(), room);
    ASSERT_FALSE(status.ok());
    const std::string said(status.message());  // that of the last try
    if (said.find(absl::StrCat("room for ", room, ";")) != std::string::npos) tried.push_back(room);
  }
  EXPECT_EQ(tried, (std::vector<int>{0, 2, 6, 14, 30, 46}));
}

TEST_F(TargetFileTest, KnowsWhatItBelongedToAndHowItEnded) {
  program_.run_second();
  ProfileSnapshot ended = snapshot();
  ended.info.state = TargetState::kExited;
  ended.info.end = {EndCause::kOutOfMemory, 9};
  ended.info.unit = "shop.service";
  ended.info.owner = ProcessUser{1000, 1001};
  ended.info.asked.user = ProcessUser{1000, 1002};
  ended.info.container = "0123456789ab";
  write(ended);
  const ProfileSnapshotPtr stored = read();
  EXPECT_EQ(stored->info.end, ended.info.end);
  EXPECT_EQ(stored->info.unit, ended.info.unit);
  EXPECT_EQ(stored->info.owner, ended.info.owner);
  EXPECT_EQ(stored->info.asked.user, ended.info.asked.user);
  EXPECT_EQ(stored->info.container, ended.info.container);
}

// Before anything else is known, the file records the attach.
TEST_F(TargetFileTest, InItsFirstSecondItIsAttachedAndHasNoCounts) {
  recording_.alloc(1, 1);
  recording_.advance(kSecond / 4);
  write(snapshot());
  const ProfileSnapshotPtr stored = read();
  EXPECT_EQ(stored->info.comm, "shop");
  EXPECT_EQ(stored->attached_ns, snapshot().attached_ns);
  EXPECT_TRUE(stored->rows.empty());
  Recording after(*stored, 7 * kSecond);
  after.alloc(2, 1);
  after.advance(kSecond);
  EXPECT_EQ(after.snapshot().rows.size(), 1u);
  EXPECT_EQ(after.snapshot().attached_ns, stored->attached_ns);
  recording_.advance(kSecond);
  write(snapshot());
  expect_same(*read(), snapshot());
}

TEST_F(TargetFileTest, HasThePeak) {
  for (int second = 0; second < 60; ++second) {
    program_.run_second(/*follows_rates=*/false);
    if (second % 4 != 3) continue;
    const ProfileSnapshot now = snapshot();
    write(now);
    const ProfileSnapshotPtr stored = read();
    const auto &peak = stored->history.peak, &expected = now.history.peak;
    ASSERT_TRUE(peak != nullptr && expected != nullptr);
    EXPECT_EQ(peak->time_ns, expected->time_ns);
    EXPECT_EQ(stored->history.peak_limits, now.history.peak_limits);
    EXPECT_GT(stored->history.peak_limits.upper, 0);
    ASSERT_EQ(peak->classes.size(), expected->classes.size());
    for (std::size_t i = 0; i < peak->classes.size(); ++i) {
      EXPECT_EQ(peak->classes[i].id, expected->classes[i].id);
      expect_same_flows(peak->classes[i].counters, expected->classes[i].counters, false);
      const Estimate& live = expected->classes[i].counters.live;
      EXPECT_NEAR(peak->classes[i].counters.live.words, live.words, 1e-6 * live.words + 1e-3);
    }
    if (HasFailure()) return;
  }
}

// Published values as of the last window that had ended.
TEST_F(TargetFileTest, HasPublishedValues) {
  ValueHistory values;
  std::uint64_t line = 0;
  for (int second = 0; second < 200; ++second) {
    program_.run_second();
    values.note({.time_ns = snapshot().now_ns(),
                 .numbers = {{{.name = "requests", .labels = {{"route", "\xff"}}}, 1.0 * second},
                             {{.kind = ValueSeries::Kind::kValue, .name = "queue"}, 5.0}},
                 .lines = {{.kind = ValueLine::Kind::kPhaseBegins, .number = line, .text = "load"},
                           {.is_cut = true, .number = line + 1, .text = "a line"}}});
    line += 2;
    if (second % 7 != 6) continue;
    ProfileSnapshot now = snapshot();
    now.values = values.view();
    write(now);
    const ProfileSnapshotPtr stored = read();
    ASSERT_NE(stored->values, nullptr);
    expect_same_values(*stored->values, *now.values);
    if (HasFailure()) return;
  }
}

TEST_F(TargetFileTest, HasNames) {
  program_.run_second();
  program_.run_second();
  write(snapshot());
  const ProfileSnapshotPtr stored = read();
  for (const ProfileRow& row : stored->rows) {
    const std::uint64_t address = row.callstack->entries.front();
    EXPECT_EQ(stored->symbolizer->locations(address, row.callstack->alloc_idx),
              symbolizer_->locations(address, row.callstack->alloc_idx));
  }
  EXPECT_EQ(stored->symbolizer->locations(99, -1)[0].function, "0x63");
}

// A truncated file, or one with a changed byte, reads as an earlier moment.
TEST_F(TargetFileTest, CutOrChangedItHasAnEarlierMoment) {
  std::map<std::uint64_t, std::uint64_t> events_at;  // by time
  std::size_t first_bytes = 0;
  for (int second = 0; second < 20; ++second) {
    program_.run_second();
    const ProfileSnapshot now = snapshot();
    write(now);
    if (first_bytes == 0) first_bytes = writer_.bytes();
    events_at[now.time_ns] = now.counters.alloc_events;
  }
  const std::string whole = read_file(path_);
  std::mt19937 random(7);
  std::size_t earlier = 0;
  for (int i = 0; i < 400; ++i) {
    const std::size_t at = random() % whole.size();
    std::string damaged = whole;
    if (i % 2 == 0) damaged.resize(at);
    if (i % 2 == 1) damaged[at] = static_cast<char>(damaged[at] ^ (1 + random() % 255));
    dir_.write("damaged", damaged);
    const auto stored = read_target(dir_.path("damaged"));
    EXPECT_EQ(stored.ok(), at >= first_bytes) << at << ": " << stored.status();
    if (!stored.ok()) continue;
    const ProfileSnapshot& moment = *stored->snapshot;
    ASSERT_TRUE(events_at.contains(moment.time_ns));
    EXPECT_EQ(moment.counters.alloc_events, events_at[moment.time_ns]);
    std::uint64_t samples = 0;
    for (const ProfileRow& row : moment.rows) samples += row.counters.allocated.samples;
    EXPECT_EQ(samples, moment.counters.all_allocated().samples) << "classes are of that moment too";
    earlier += moment.time_ns != events_at.rbegin()->first;
  }
  EXPECT_GT(earlier, 100u);
}

TEST_F(TargetFileTest, StaysBoundedForHours) {
  std::uint64_t largest = 0;
  const int seconds = rounds_of(3000, 6000);  // it is rewritten about every 2,000
  for (int second = 0; second < seconds; ++second) {
    program_.run_second();
    if (second % 4 != 3) continue;
    write(snapshot());
    largest = std::max(largest, writer_.bytes());
  }
  TargetWriter fresh(dir_.path("fresh"));
  ASSERT_TRUE(fresh.write(snapshot(), kRoom).ok());
  EXPECT_LE(writer_.bytes(), 2 * fresh.bytes() + kGrowthBytes + (64u << 10));
  EXPECT_LE(largest, 3 * fresh.bytes() + 2 * kGrowthBytes);
  EXPECT_EQ(writer_.bytes(), std::filesystem::file_size(path_));
  expect_same(*read(), snapshot());
}

TEST_F(TargetFileTest, WithoutRoomItKeepsWhatItHad) {
  program_.run_second();
  program_.run_second();
  write(snapshot());
  const std::uint64_t then = read()->time_ns;
  program_.run_second();
  const absl::Status status = writer_.write(snapshot(), 100);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("--state.max-bytes"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  EXPECT_GE(read()->time_ns, then);
  EXPECT_FALSE(writer_.write(snapshot(), kRoom).ok()) << "not at once";
  write(snapshot());
  expect_same(*read(), snapshot());
}

}  // namespace
}  // namespace memprofd
