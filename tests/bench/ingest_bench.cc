// What the daemon spends on one event: decode, pair, aggregate, in one thread.
//
// A synthetic target: some live blocks, and a steady stream of captures
// (repeated stacks, ids only), alloc records, promotions of a tenth, and a
// deallocation for each allocation, in batches of 512 records from 4 threads.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include "daemon/event_tap.h"
#include "daemon/pipeline.h"
#include "daemon/store/event_log.h"
#include "tests/unit/ring_events.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kThreads = 4;
constexpr std::uint64_t kStacks = 2000;
constexpr std::size_t kDepth = 30;

class SyntheticTarget {
 public:
  explicit SyntheticTarget(std::uint64_t live) {
    pipeline.begin_session(1, 1e-4);
    pipeline.on_ring_record(ring_batch({.generation = 1}, {}).bytes());
    for (std::uint64_t stack = 1; stack <= kStacks; ++stack) send_stack(stack);
    while (next_id_ <= live) fill_batch(/*keep=*/true);
    pending_captures_.clear();
  }

  // The events of one batch; sent by send(). keep: nothing dies.
  void fill_batch(bool keep) {
    records_.clear();
    while (records_.size() + 3 <= MEMPROF_BATCH_RECORDS) add_block(keep);
    batch_ =
        ring_batch({.header = {.time_ns = ++time_}, .first_seq = seq_, .generation = 1}, records_);
    seq_ += records_.size();
    if (keep) send();
  }

  std::size_t send() {
    const std::size_t events = pending_captures_.size() + records_.size();
    for (const memprof_capture& capture : pending_captures_) {
      pipeline.on_ring_record({reinterpret_cast<const std::byte*>(&capture), sizeof capture});
    }
    pipeline.on_ring_record(batch_.bytes());
    pending_captures_.clear();
    return events;
  }

  Pipeline pipeline;

 private:
  void send_stack(std::uint64_t stack) {
    std::vector<std::uint64_t> entries(kDepth);
    for (std::size_t i = 0; i < kDepth; ++i) entries[i] = stack * 1000 + i;
    pipeline.on_ring_record(ring_capture({.stack_id = stack, .alloc_idx = 0}, entries).bytes());
  }

  void add_block(bool keep) {
    const std::uint32_t tid = 1 + static_cast<std::uint32_t>(random_() % kThreads);
    pending_captures_.push_back(
        {.header = {.kind = MEMPROF_EVENT_CAPTURE, .tid = tid, .time_ns = time_ += 500},
         .stack_id = 1 + random_() % kStacks,
         .alloc_idx = 0,
         .n_frames = kDepth});
    records_.push_back(sample_record(time_ += 500, next_id_++, MEMPROF_ALLOC_MINOR, 1, tid));
    if (random_() % 10 == 0) {
      records_.push_back(sample_record(++time_, next_id_ - 1, MEMPROF_PROMOTE, 0, tid));
    }
    if (!keep)
      records_.push_back(sample_record(++time_, next_dead_++, MEMPROF_DEALLOC_MAJOR, 0, tid));
  }

  std::mt19937 random_{1};
  std::uint64_t time_ = 1;
  std::uint64_t seq_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_dead_ = 1;
  std::vector<memprof_record> records_;
  std::vector<memprof_capture> pending_captures_;
  RingRecord batch_{nullptr, 0, nullptr, 0};
};

// Argument: live blocks.
void ingest(benchmark::State& state) {
  SyntheticTarget target(static_cast<std::uint64_t>(state.range(0)));
  std::int64_t events = 0;
  for (auto _ : state) {
    state.PauseTiming();
    target.fill_batch(/*keep=*/false);
    state.ResumeTiming();
    events += static_cast<std::int64_t>(target.send());
  }
  state.SetItemsProcessed(events);
  state.counters["cpu_per_event"] = benchmark::Counter(
      static_cast<double>(events), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  const std::uint64_t lost = target.pipeline.drops().total();
  if (lost > 0) state.SkipWithError("events were dropped");
}
BENCHMARK(ingest)->Arg(10'000)->Arg(1'000'000)->ArgName("live");

// The same while somebody reads every event; the reader's own work does not count.
void ingest_with_reader(benchmark::State& state) {
  SyntheticTarget target(static_cast<std::uint64_t>(state.range(0)));
  EventTap tap(target.pipeline, std::make_shared<EventLog>());
  auto reader = EventReader::open(tap.log());
  if (!reader.ok()) return state.SkipWithError("no reader");
  std::int64_t events = 0;
  std::uint64_t read = 0, dropped = 0;
  for (auto _ : state) {
    state.PauseTiming();
    target.fill_batch(/*keep=*/false);
    state.ResumeTiming();
    tap.update();
    events += static_cast<std::int64_t>(target.send());
    tap.flush();
    state.PauseTiming();
    const EventRead got = reader->read(1 << 20, std::chrono::milliseconds(0));
    dropped += got.dropped;
    for (const EventSlice& slice : got.slices) read += slice.events().size();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(events);
  state.counters["cpu_per_event"] = benchmark::Counter(
      static_cast<double>(events), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  if (read == 0 || dropped > 0) state.SkipWithError("events were not read");
}
BENCHMARK(ingest_with_reader)->Arg(10'000)->Arg(1'000'000)->ArgName("live");

void bytes_per_live_sample(benchmark::State& state) {
  const auto samples = static_cast<std::uint64_t>(state.range(0));
  double bytes = 0;
  for (auto _ : state) {
    LiveSet live(samples);
    for (std::uint64_t id = 1; id <= samples; ++id) {
      live.insert(SampleId(id), {id, 1, ClassId(1), Heap::kMinor});
    }
    bytes = static_cast<double>(live.memory_bytes());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["bytes_per_live_sample"] = bytes / static_cast<double>(samples);
}
BENCHMARK(bytes_per_live_sample)->Arg(100'000)->Arg(1'000'000)->ArgName("live");

// What a publication costs the ingest thread.
void snapshot(benchmark::State& state) {
  SyntheticTarget target(100'000);
  for (auto _ : state) {
    TargetSnapshot snapshot;
    target.pipeline.fill(snapshot);
    benchmark::DoNotOptimize(snapshot.rows.data());
  }
  state.counters["callstacks"] = static_cast<double>(kStacks);
}
BENCHMARK(snapshot)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace memprofd

BENCHMARK_MAIN();
