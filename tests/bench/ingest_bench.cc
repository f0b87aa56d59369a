// SPDX-License-Identifier: Apache-2.0
// CPU time of the daemon per event: decoding, pairing and aggregation in one thread.
// tests/kit/synthetic_target.h generates the events.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>

#include "daemon/history/event_log.h"
#include "daemon/pipeline/event_tap.h"
#include "tests/kit/synthetic_target.h"

namespace memprofd {
namespace {

void count(benchmark::State& state, std::int64_t events) {
  state.SetItemsProcessed(events);
  state.counters["cpu_per_event"] = benchmark::Counter(
      static_cast<double>(events), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Argument: live blocks.
template <typename Captured>
void ingest(benchmark::State& state) {
  SyntheticTarget<Captured> target({.live = static_cast<std::size_t>(state.range(0))});
  std::int64_t events = 0;
  for (auto _ : state) {
    state.PauseTiming();
    target.fill_batch();
    state.ResumeTiming();
    events += static_cast<std::int64_t>(target.send());
  }
  count(state, events);
  if (target.pipeline.drops().total() > 0) state.SkipWithError("events were dropped");
}
BENCHMARK(ingest<KernelCaptured>)
    ->Name("kernel_capture")
    ->Arg(10'000)
    ->Arg(1'000'000)
    ->ArgName("live");
BENCHMARK(ingest<RuntimeCaptured>)
    ->Name("runtime_capture")
    ->Arg(10'000)
    ->Arg(1'000'000)
    ->ArgName("live");

// The same while a client reads every event; the reader's own work does not count.
template <typename Captured>
void ingest_with_reader(benchmark::State& state) {
  SyntheticTarget<Captured> target({.live = static_cast<std::size_t>(state.range(0))});
  EventTap tap(target.pipeline, std::make_shared<EventLog>());
  auto reader = EventReader::open(tap.log());
  if (!reader.ok()) return state.SkipWithError("no reader");
  std::int64_t events = 0;
  std::uint64_t read = 0, dropped = 0;
  for (auto _ : state) {
    state.PauseTiming();
    target.fill_batch();
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
  count(state, events);
  if (read == 0 || dropped > 0) state.SkipWithError("events were not read");
}
BENCHMARK(ingest_with_reader<KernelCaptured>)
    ->Name("kernel_capture_with_reader")
    ->Arg(10'000)
    ->ArgName("live");
BENCHMARK(ingest_with_reader<RuntimeCaptured>)
    ->Name("runtime_capture_with_reader")
    ->Arg(10'000)
    ->ArgName("live");

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

// Cost of publishing a snapshot for the ingest thread.
void snapshot(benchmark::State& state) {
  SyntheticTarget<KernelCaptured> target({.live = 100'000});
  std::size_t rows = 0;
  for (auto _ : state) {
    ProfileSnapshot snapshot;
    target.pipeline.fill(snapshot);
    rows = snapshot.rows.size();
    benchmark::DoNotOptimize(snapshot.rows.data());
  }
  state.counters["rows"] = static_cast<double>(rows);
}
BENCHMARK(snapshot)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace memprofd

BENCHMARK_MAIN();
