// SPDX-License-Identifier: Apache-2.0
// Traces as targets: a replayed recording must have the counts of the daemon.
#include "daemon/trace/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <deque>
#include <map>
#include <random>

#include "daemon/aggregate/survival_curve.h"
#include "daemon/export/api/query_service.h"
#include "daemon/query/range.h"
#include "daemon/query/select.h"
#include "daemon/query/visible_frames.h"
#include "daemon/trace/trace_order.h"
#include "tests/kit/ctf_trace.h"
#include "tests/kit/full_length.h"
#include "tests/kit/temp_dir.h"
#include "tests/kit/trace_log.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;
using testing::MemoryOutput;
using testing::NamingSymbolizer;
using testing::TraceSource;

constexpr std::uint64_t kMs = 1'000'000;

class ReplayTest : public ::testing::Test {
 protected:
  std::string write(std::span<const std::byte> bytes) {
    return dir_.write("a.ctf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  // Records the source's events in pieces, with flushes in between.
  Replay record(TraceSource& source, RecordingOptions options = {}, const std::string& context = "",
                std::uint64_t until_ns = 0) {
    MemoryOutput output;
    ctf::TraceInfo info = testing::example_trace_info();
    info.context = context;
    TraceRecording recording(output, symbolizer_, info, options);
    EXPECT_TRUE(recording.put(source.read()));
    recording.end("done", until_ns);
    EXPECT_EQ(output.files.size(), 1u);
    bytes_ = output.files[0];
    return replay(write(bytes_));
  }
  static Replay replay(const std::string& path) {
    absl::StatusOr<Replay> replay = replay_trace(path);
    EXPECT_TRUE(replay.ok()) << replay.status();
    return replay.ok() ? *std::move(replay) : Replay{std::make_shared<ProfileSnapshot>(), {}, 0};
  }

  TempDir dir_;
  std::shared_ptr<NamingSymbolizer> symbolizer_ = std::make_shared<NamingSymbolizer>();
  std::vector<std::byte> bytes_;  // of the last recording
};

// Counters by the properties that memprofd and a file share: heap, size and the callstack as text.
using Totals = std::map<std::string, Counters>;
template <typename Rows>
Totals totals(const Rows& rows, Symbolizer& symbolizer) {
  Totals result;
  for (const ProfileRow& row : rows) {
    std::string key =
        absl::StrCat(static_cast<int>(row.alloc_class.heap), " ", row.alloc_class.size.index());
    for (const Location& at : VisibleFrames(symbolizer, nullptr).locations(*row.callstack)) {
      absl::StrAppend(&key, " ", at.function, "@", at.file, ":", at.line, ":", at.start_column, "-",
                      at.end_column);
    }
    result[key] += row.counters;
  }
  return result;
}
std::vector<ProfileRow> rows_of(const Aggregator& aggregator) {
  static std::deque<std::shared_ptr<const Callstack>> kept;
  std::vector<ProfileRow> rows;
  for (std::uint32_t id = 1; id < aggregator.by_class().size(); ++id) {
    const AllocClass& alloc_class = aggregator.classes().get(ClassId(id));
    rows.push_back(
        {ClassId(id), alloc_class,
         kept.emplace_back(testing::trace_callstack_of(alloc_class.callstack.value())).get(),
         aggregator.by_class()[id]});
  }
  return rows;
}

// Both round their sums, and their windows end at different times.
void expect_same(const Estimate& a, const Estimate& b, const std::string& what) {
  constexpr double kRounded = 1e-12;
  EXPECT_EQ(a.samples, b.samples) << what;
  EXPECT_NEAR(a.words, b.words, kRounded * b.words) << what;
  EXPECT_NEAR(a.variance_words2, b.variance_words2, kRounded * b.variance_words2) << what;
}
void expect_same(const Counters& a, const Counters& b, const std::string& what) {
  expect_same(a.allocated, b.allocated, "allocated by " + what);
  expect_same(a.promoted, b.promoted, "promoted of " + what);
  expect_same(a.live, b.live, "live of " + what);
  expect_same(a.deallocated[0], b.deallocated[0], "died young of " + what);
  expect_same(a.deallocated[1], b.deallocated[1], "died old of " + what);
  EXPECT_EQ(a.deaths.histogram().total(), b.deaths.histogram().total()) << what;
}

TEST_F(ReplayTest, AgreesWithWhatTheDaemonCounted) {
  TraceSource source;
  testing::busy_minute(source);
  const Replay replay = record(source);
  EXPECT_TRUE(replay.summary.complete()) << replay.summary.losses();
  EXPECT_EQ(replay.version, 2);
  const ProfileSnapshot& file = *replay.snapshot;
  const TargetCounters& counted = source.aggregator().totals();
  EXPECT_EQ(file.counters.alloc_events, counted.alloc_events);
  EXPECT_EQ(file.counters.promote_events, counted.promote_events);
  EXPECT_EQ(file.counters.dealloc_events, counted.dealloc_events);
  expect_same(file.counters.live, counted.live, "live");
  expect_same(file.counters.promoted, counted.promoted, "promoted");
  expect_same(file.counters.deallocated[0], counted.deallocated[0], "died young");
  expect_same(file.counters.deallocated[1], counted.deallocated[1], "died old");
  for (int heap = 0; heap < kHeaps; ++heap) {
    Estimate in_heap = counted.allocated[heap][0];
    in_heap += counted.allocated[heap][1];
    expect_same(file.counters.allocated[heap][0], in_heap, "allocated");
  }
  const Totals of_file = totals(file.rows, *file.symbolizer);
  const Totals of_daemon = totals(rows_of(source.aggregator()), *symbolizer_);
  ASSERT_EQ(of_file.size(), of_daemon.size());
  for (const auto& [key, counters] : of_daemon) {
    ASSERT_TRUE(of_file.contains(key)) << key;
    expect_same(of_file.at(key), counters, key);
  }
  EXPECT_EQ(file.drops.total(), 0u);
}

TEST_F(ReplayTest, DescribesTheTarget) {
  TraceSource source;
  source.alloc(1);
  source.advance(2'500 * kMs);
  source.alloc(1);
  const Replay replay = record(source);
  const TargetInfo& info = replay.snapshot->info;
  EXPECT_EQ(info.pid, 4242);
  EXPECT_EQ(info.comm, "server.exe");
  EXPECT_EQ(info.exe, "/srv/app/server.exe");
  EXPECT_EQ(info.mode, TargetMode::kTrace);
  EXPECT_EQ(info.state, TargetState::kExited);
  EXPECT_EQ(info.sampling_rate, 1e-3);
  EXPECT_NEAR(static_cast<double>(replay.snapshot->time_ns - replay.snapshot->attached_ns), 2.5e9,
              1e4);
}

TEST_F(ReplayTest, LastsUntilTheRecordingEnded) {
  for (const int version : {2, 3}) {
    TraceSource source;
    source.alloc(1, 1, 3, MEMPROF_ALLOC_MINOR, MEMPROF_SOURCE_NORMAL, 1);
    const Replay replay = record(source, {.version = version}, "", source.now() + 90'000 * kMs);
    const ProfileSnapshot& file = *replay.snapshot;
    EXPECT_TRUE(replay.summary.complete()) << replay.summary.losses();
    EXPECT_NEAR(static_cast<double>(file.time_ns - file.attached_ns), 90e9, 1e4);
    EXPECT_EQ(file.history.newest_ns(), file.time_ns);
    ASSERT_EQ(file.rows.size(), 1u);
    EXPECT_GT(SurvivalCurve(file.rows[0].counters).watched_ns(), 60e9) << "the bucket of 90 s";
  }
}

TEST_F(ReplayTest, HasTheHistoryOfTheTrace) {
  TraceSource source;
  std::vector<std::uint64_t> blocks;
  for (int second = 0; second < 30; ++second) {
    blocks.push_back(source.alloc(1));
    if (second == 20) {
      for (const std::uint64_t id : std::exchange(blocks, {})) source.die(id);
    }
    source.advance(1000 * kMs);
  }
  source.alloc(2);
  const ProfileSnapshotPtr file = record(source).snapshot;
  const RangeRows first =
      rows_in_range(*file, {file->attached_ns, file->attached_ns + 10'500 * kMs}, LifetimeFilter{});
  ASSERT_EQ(first.rows.size(), 1u);
  EXPECT_NEAR(static_cast<double>(first.rows[0].counters.allocated.samples), 10.5, 0.6);
  EXPECT_EQ(first.rows[0].counters.live.samples, first.rows[0].counters.allocated.samples);
  EXPECT_EQ(first.rows[0].counters.deallocated[0].samples, 0u);
  ASSERT_NE(file->history.peak, nullptr);
  EXPECT_EQ(file->history.peak->live.samples, 20u) << "of the window limits";
  EXPECT_EQ(file->history.newest_ns(), file->time_ns);
  std::uint64_t allocated = 0;
  for (const HistoryWindowPtr& window : file->history.cover(file->attached_ns, file->time_ns)) {
    window->for_each_cell([&](const WindowCell& cell, double) { allocated += cell.allocated; });
  }
  EXPECT_EQ(allocated, 31u) << "no event is outside of the history";
}

TEST_F(ReplayTest, ALongPauseIsAWindowOfItsOwn) {
  TraceSource source;
  source.alloc(1);
  source.advance(36'000'000 * kMs);
  source.alloc(1);
  source.advance(10 * kMs);
  source.alloc(1);
  const ProfileSnapshotPtr file = record(source).snapshot;
  const RangeRows first_second =
      rows_in_range(*file, {file->attached_ns, file->attached_ns + 1000 * kMs}, LifetimeFilter{});
  ASSERT_EQ(first_second.rows.size(), 1u);
  EXPECT_EQ(first_second.rows[0].counters.allocated.samples, 1u);
  const RangeRows pause = rows_in_range(
      *file, {file->attached_ns + 2000 * kMs, file->time_ns - 1500 * kMs}, LifetimeFilter{});
  ASSERT_EQ(pause.rows.size(), 1u) << "the first block is alive";
  EXPECT_EQ(pause.rows[0].counters.allocated.samples, 0u);
}

TEST_F(ReplayTest, ExternalMemoryIsCustom) {
  TraceSource source;
  source.alloc(1, 5, 3, MEMPROF_ALLOC_MINOR, MEMPROF_SOURCE_CUSTOM);
  const ProfileSnapshotPtr file = record(source).snapshot;
  ASSERT_EQ(file->rows.size(), 1u);
  EXPECT_EQ(file->rows[0].alloc_class.source, Source::kCustom);
  EXPECT_EQ(file->counters.allocated[1][2].samples, 5u);
}

// This trace format calls the native heap "external".
TEST_F(ReplayTest, NativeBlocksKeepTheirCounts) {
  TraceSource source(1e-3, 1.0 / 1024);
  for (int i = 0; i < 2000; ++i) {
    source.advance(10 * kMs);
    const auto callstack = static_cast<std::uint32_t>(1 + i % 7);
    const std::uint64_t id =
        source.native_alloc(callstack, 8 * static_cast<std::uint64_t>(1 + i % 900));
    source.alloc(callstack);
    if (i % 3 != 0) source.native_free(id);
  }
  const Replay replay = record(source, {.of_c = true}, kNativeHeapContext);
  Counters counted, replayed;
  for (const Counters& counters : source.aggregator().by_class()) {
    const auto id = static_cast<std::uint32_t>(&counters - source.aggregator().by_class().data());
    const bool of_c = source.aggregator().classes().get(ClassId(id)).heap_kind() == HeapKind::kC;
    if (of_c) counted += counters;
  }
  for (const ProfileRow& row : replay.snapshot->rows) {
    EXPECT_EQ(row.alloc_class.heap_kind(), HeapKind::kExternal);
    replayed += row.counters;
  }
  EXPECT_DOUBLE_EQ(replayed.allocated.bytes(), counted.allocated.bytes());
  EXPECT_DOUBLE_EQ(replayed.live.bytes(), counted.live.bytes());
  EXPECT_DOUBLE_EQ(replayed.live.variance_words2, counted.live.variance_words2);
  EXPECT_DOUBLE_EQ(replayed.deallocated[1].bytes(), counted.deallocated[1].bytes())
      << "none of it has died young";
  Filter filter;
  filter.heap = HeapKind::kC;
  const auto asked = select(*replay.snapshot, {}, filter);
  EXPECT_EQ(asked->rows.size(), replay.snapshot->rows.size()) << "who asks for C's memory finds it";
}

TEST_F(ReplayTest, KeepsTheDomainsOfVersion3) {
  TraceSource source;
  std::vector<std::uint64_t> blocks;
  for (std::uint16_t i = 0; i < 300; ++i) {
    blocks.push_back(source.alloc(1, 1, 3, MEMPROF_ALLOC_MINOR, MEMPROF_SOURCE_NORMAL, i % 3));
    source.advance(7 * kMs);
  }
  for (int i = 0; i < 300; i += 2) source.die(blocks[static_cast<std::size_t>(i)]);
  const Replay replay = record(source, {.version = 3});
  EXPECT_EQ(replay.version, 3);
  std::map<int, std::pair<std::uint64_t, std::uint64_t>> by_domain;
  for (const ProfileRow& row : replay.snapshot->rows) {
    by_domain[row.alloc_class.domain].first += row.counters.allocated.samples;
    by_domain[row.alloc_class.domain].second += row.counters.live.samples;
  }
  EXPECT_EQ(by_domain, (std::map<int, std::pair<std::uint64_t, std::uint64_t>>{
                           {0, {100, 50}}, {1, {100, 50}}, {2, {100, 50}}}));
  EXPECT_EQ(replay.snapshot->drops.total(), 0u);
}

TEST_F(ReplayTest, ReportsTheLossesOfATruncatedFile) {
  TraceSource source;
  testing::busy_minute(source);
  const Replay whole = record(source);
  const Replay half = replay(write(std::span(bytes_).first(bytes_.size() / 2)));
  EXPECT_FALSE(half.summary.complete());
  EXPECT_THAT(half.summary.losses(), HasSubstr("truncated"));
  EXPECT_EQ(half.snapshot->counters.alloc_events, half.summary.allocs);
  EXPECT_GT(half.summary.allocs, whole.summary.allocs / 4);
  EXPECT_LT(half.summary.allocs, whole.summary.allocs * 3 / 4);
}

TEST_F(ReplayTest, SurvivesDamage) {
  TraceSource source;
  testing::busy_minute(source, 5000);
  const Replay whole = record(source);
  std::mt19937 random(7);
  const int rounds = rounds_of(50, 5000);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::byte> bytes = bytes_;
    for (int flips = 0; flips < 8; ++flips) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    const absl::StatusOr<Replay> damaged = replay_trace(write(bytes));
    if (!damaged.ok()) continue;  // the description
    EXPECT_LE(damaged->snapshot->history.begin_ns, damaged->snapshot->time_ns);
    std::uint64_t samples = 0;
    for (const ProfileRow& row : damaged->snapshot->rows) {
      samples += row.counters.allocated.samples;
      EXPECT_FALSE(
          VisibleFrames(*damaged->snapshot->symbolizer, nullptr).locations(*row.callstack).empty());
    }
    std::uint64_t total = 0;
    for (const auto& heap : damaged->snapshot->counters.allocated) {
      for (const Estimate& from_source : heap) total += from_source.samples;
    }
    EXPECT_EQ(samples, total);
  }
}

TEST_F(ReplayTest, RefusesFilesThatAreNotTraces) {
  EXPECT_FALSE(replay_trace(dir_.path("none.ctf")).ok());
  EXPECT_FALSE(replay_trace(dir_.write("text", "hello")).ok());
  ctf::testing::MemoryFile file;
  ctf::TraceInfo info = ctf::testing::example_info();
  info.word_bits = 32;
  ctf::Writer writer(
      file.sink(), [](std::uint64_t) { return std::vector<ctf::Location>(); }, info);
  ASSERT_TRUE(writer.flush().ok());
  EXPECT_THAT(std::string(replay_trace(write(file.bytes())).status().message()),
              HasSubstr("words of 32 bits"));
}

TEST_F(ReplayTest, AnswersQuestionsAsALiveTargetDoes) {
  TraceSource source;
  testing::busy_minute(source);
  TraceFileSource file(record(source));
  QueryService queries(file);
  ::memprof::v1::ListSitesRequest request;
  const auto sites = queries.list_sites(request);
  ASSERT_TRUE(sites.ok()) << sites.status();
  EXPECT_GT(sites->sites_size(), 30);
  EXPECT_EQ(sites->total().allocated().samples(),
            source.aggregator().totals().allocated[0][0].samples +
                source.aggregator().totals().allocated[0][1].samples +
                source.aggregator().totals().allocated[1][0].samples +
                source.aggregator().totals().allocated[1][1].samples);
  request.set_pid(4242);
  request.mutable_range()->set_last_seconds(10);
  request.mutable_filter()->set_allocated_in_range(true);
  EXPECT_TRUE(queries.list_sites(request).ok());
  request.mutable_range()->set_last_seconds(0);
  request.mutable_range()->set_until_peak(true);
  EXPECT_TRUE(queries.list_sites(request).ok());
  request.set_pid(1);
  EXPECT_THAT(std::string(queries.list_sites(request).status().message()),
              HasSubstr("the trace is of pid 4242, not of 1"));
  ::memprof::v1::ListLeaksRequest leaks;
  EXPECT_TRUE(queries.list_leaks(leaks).ok());
  ::memprof::v1::GetHistoryRequest history;
  const auto series = queries.get_history(history);
  ASSERT_TRUE(series.ok()) << series.status();
  EXPECT_GT(series->points_size(), 50);
  EXPECT_GT(series->peak_live_bytes(), 0);
}

TEST(TraceOrder, PutsDomainsInOrder) {
  struct Event {
    std::uint64_t time_us;
    int what;
  };
  TraceOrder<Event> order(100, 1000);
  std::vector<int> seen;
  const auto use = [&](const Event& event) { seen.push_back(event.what); };
  for (const Event& event : {Event{10, 0}, {20, 2}, {30, 3}, {15, 1}, {30, 4}, {129, 5}}) {
    order.put(event, use);
  }
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
  order.finish(use);
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(TraceOrder, HoldsNoMoreBackThanItMay) {
  struct Event {
    std::uint64_t time_us;
  };
  TraceOrder<Event> order(1000, 3);
  std::vector<std::uint64_t> seen;
  for (std::uint64_t time = 1; time <= 5; ++time) {
    order.put({time}, [&](const Event& event) { seen.push_back(event.time_us); });
  }
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2}));
}

}  // namespace
}  // namespace memprofd
