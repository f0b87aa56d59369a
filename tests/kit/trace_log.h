// SPDX-License-Identifier: Apache-2.0
// A target's events on their way into a trace, and memprofd's own counts: one aggregator feeds
// both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/aggregate/aggregator.h"
#include "daemon/history/event_log.h"
#include "daemon/trace/recording.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/ring_events.h"

namespace memprofd::testing {

inline constexpr std::uint64_t kTraceStart = 5'000'000'000;  // CLOCK_MONOTONIC

// Return addresses of callstack n, innermost first: 0x1000 + n and its callers. Odd ones are
// recursive.
inline std::shared_ptr<const Callstack> trace_callstack_of(std::uint32_t n) {
  auto callstack = std::make_shared<Callstack>();
  callstack->hash = StackHash(n);
  callstack->alloc_idx = static_cast<std::int32_t>(n % 3) - 1;
  callstack->entries = {0x1000 + n, 0x2000 + n % 4};
  if (n % 2 == 1) callstack->entries.push_back(MEMPROF_RUN_MARK | 5);
  callstack->entries.push_back(0x3000);
  return callstack;
}

// "f_a_0 file:4096" for address 0x1000 and alloc_idx 0; callers are inlined into the functions
// above them.
class NamingSymbolizer : public Symbolizer {
 public:
  std::vector<Location> look_up(std::uint64_t address, std::int32_t alloc_idx) override {
    const auto at = [&](const char* what) {
      return Location{.function = absl::StrCat(what, "_", absl::Hex(address), "_", alloc_idx),
                      .file = absl::StrCat("lib/m", address >> 12, ".ml"),
                      .line = static_cast<std::uint32_t>(address),
                      .start_column = 2,
                      .end_column = 30};
    };
    if (address >= 0x3000) return {at("inlined"), at("main")};
    return {at("f")};
  }
};

// Events of successive sessions. take() ends a chunk.
class TraceSource {
 public:
  explicit TraceSource(double rate = 1e-3, double native_rate = 0) : native_rate_(native_rate) {
    set_rate(rate);
    if (native_rate > 0) aggregator_.begin_native_session(native_rate);
  }

  void set_rate(double rate) { aggregator_.begin_session(rate); }
  void advance(std::uint64_t ns) { now_ += ns; }
  std::uint64_t now() const { return now_; }

  // Returns the block's id.
  std::uint64_t alloc(std::uint32_t callstack, std::uint32_t n_samples = 1, std::uint64_t words = 3,
                      std::uint32_t kind = MEMPROF_ALLOC_MINOR,
                      std::uint32_t source = MEMPROF_SOURCE_NORMAL, std::uint16_t domain = 0) {
    memprof_record record = sample_record(now_, ++last_id_, kind, n_samples, 7, source);
    record.size_words = words;
    events_.push_back(aggregator_.alloc(record, CallstackId(callstack), domain));
    return last_id_;
  }
  void promote(std::uint64_t id) {
    events_.push_back(aggregator_.promote(sample_record(now_, id, MEMPROF_PROMOTE)));
  }
  void die(std::uint64_t id, std::uint32_t kind = MEMPROF_DEALLOC_MINOR) {
    events_.push_back(aggregator_.dealloc(sample_record(now_, id, kind)));
  }

  // The same for the native heap.
  std::uint64_t native_alloc(std::uint32_t callstack, std::uint64_t bytes,
                             std::uint32_t n_samples = 1) {
    events_.push_back(aggregator_.native_alloc({.number = ++last_c_id_,
                                                .time_ns = now_,
                                                .bytes = bytes,
                                                .n_samples = n_samples,
                                                .thread = 7},
                                               CallstackId(callstack)));
    return last_c_id_;
  }
  void native_free(std::uint64_t id) {
    if (const auto event = aggregator_.native_free(id, now_, 7)) events_.push_back(*event);
  }

  // All events since the last call, at least one.
  EventChunkPtr take() {
    auto chunk = std::make_shared<EventChunk>();
    chunk->first = first_;
    chunk->rate = aggregator_.rate();
    chunk->native_rate = native_rate_;
    chunk->events = std::exchange(events_, {});
    first_ = chunk->end();
    for (std::uint32_t id = 0; id <= aggregator_.classes().size(); ++id) {
      const AllocClass& alloc_class = aggregator_.classes().get(ClassId(id));
      const CallstackId callstack = alloc_class.callstack;
      chunk->classes.push_back({ClassId(id), alloc_class,
                                callstack == CallstackId()
                                    ? std::make_shared<const Callstack>()
                                    : trace_callstack_of(callstack.value())});
    }
    return chunk;
  }
  EventRead read(std::uint64_t dropped = 0) {
    const EventChunkPtr chunk = take();
    return {.dropped = dropped, .slices = {{chunk, 0}}, .next = EventCursor{1, chunk->end()}};
  }

  const Aggregator& aggregator() const { return aggregator_; }

 private:
  DropCounters drops_;
  Aggregator aggregator_{{}, drops_};
  std::uint64_t now_ = kTraceStart;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_c_id_ = 0;
  double native_rate_;
  std::uint64_t first_ = 0;
  std::vector<SampleEvent> events_;
};

// A busy minute: blocks of 40 callstacks that die young, get promoted, or stay.
inline void busy_minute(TraceSource& source, int allocs = 20'000) {
  std::vector<std::uint64_t> old;
  for (int i = 0; i < allocs; ++i) {
    source.advance(60'000'000'000ull / static_cast<std::uint64_t>(allocs));
    const auto callstack = static_cast<std::uint32_t>(1 + i * 7 % 40);
    const bool major = i % 50 == 0;
    const std::uint64_t id =
        source.alloc(callstack, 1 + i % 3, major ? 1000 : 1 + i % 20,
                     major ? MEMPROF_ALLOC_MAJOR : MEMPROF_ALLOC_MINOR,
                     i % 97 == 0 ? MEMPROF_SOURCE_MARSHAL : MEMPROF_SOURCE_NORMAL);
    if (i % 10 == 0) {
      if (!major) source.promote(id);
      old.push_back(id);
    } else if (i % 11 != 0) {
      source.advance(1000);
      source.die(id, major ? MEMPROF_DEALLOC_MAJOR : MEMPROF_DEALLOC_MINOR);
    }
    if (old.size() > 300) {
      source.die(old[static_cast<std::size_t>(i) % old.size()], MEMPROF_DEALLOC_MAJOR);
      old.erase(old.begin() +
                static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) % old.size()));
    }
  }
}

// Files of a recording, in memory.
class MemoryOutput : public TraceOutput {
 public:
  absl::Status begin_file() override {
    files.emplace_back();
    return absl::OkStatus();
  }
  absl::Status write(std::span<const std::byte> packet) override {
    if (!failure.ok()) return failure;
    files.back().insert(files.back().end(), packet.begin(), packet.end());
    return absl::OkStatus();
  }
  std::vector<std::vector<std::byte>> files;
  absl::Status failure;
};

inline ctf::TraceInfo example_trace_info() {
  return {.sampling_rate = 1e-3, .executable = "/srv/app/server.exe", .host = "h", .pid = 4242};
}

}  // namespace memprofd::testing
