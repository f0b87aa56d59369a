// SPDX-License-Identifier: Apache-2.0
// Records of the ring buffer, batches and packed batches through a whole pipeline: sums agree and
// tables keep their limits. Input: repeated (u16 length, record).
#include <random>
#include <vector>

#include "daemon/pipeline/pipeline.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/packed_batch.h"
#include "tests/kit/ring_events.h"

namespace memprofd::fuzz {
namespace {

// Small limits, so that short inputs reach them.
PipelineLimits small_limits() {
  return {.max_live_samples = 50,
          .callstacks = {.callstacks = 4, .entries = 64, .cut_callstacks = 4, .cut_hashes = 8},
          .pairing = {.threads = 3, .captures_per_thread = 10, .captures = 20}};
}

void check_sums(const Pipeline& pipeline) {
  ProfileSnapshot snapshot;
  pipeline.fill(snapshot);
  std::uint64_t live = 0, allocated = 0, promoted = 0;
  for (const ProfileRow& stats : snapshot.rows) {
    require(stats.callstack != nullptr, "callstack is null");
    require(stats.callstack->expand(100).size() <= 100, "expanded beyond the cap");
    require(stats.counters.live.samples <= stats.counters.allocated.samples, "live > allocated");
    live += stats.counters.live.samples;
    allocated += stats.counters.allocated.samples;
    promoted += stats.counters.promoted.samples;
  }
  std::uint64_t total = 0;
  for (const auto& by_source : snapshot.counters.allocated) {
    for (const Estimate& estimate : by_source) total += estimate.samples;
  }
  require(allocated == total, "callstacks do not sum up to the allocated total");
  require(live == snapshot.counters.live.samples, "callstacks do not sum up to the live total");
  require(promoted == snapshot.counters.promoted.samples, "promoted sums differ");
  require(snapshot.live_samples_tracked <= 50, "live set beyond its cap");
  require(snapshot.stacks_interned <= 8, "callstack table beyond its cap");
}

bool read(std::string_view bytes) {
  Pipeline pipeline(small_limits());
  pipeline.begin_session(1, 0.01);
  pipeline.begin_session(2, 0.1);
  std::vector<std::uint64_t> record;
  for (Input input(bytes); !input.rest().empty();) {
    const std::string_view one = input.take_bytes(input.take<std::uint16_t>());
    // Exactly as long as the record, so that a sanitizer detects reads past its end.
    record.assign((one.size() + 7) / 8, 0);
    record.shrink_to_fit();
    if (!one.empty()) std::memcpy(record.data(), one.data(), one.size());
    pipeline.on_ring_record({reinterpret_cast<const std::byte*>(record.data()), one.size()});
  }
  check_sums(pipeline);
  pipeline.end();
  check_sums(pipeline);
  ProfileSnapshot snapshot;
  pipeline.fill(snapshot);
  return snapshot.counters.alloc_events > 0;
}

void append(std::string& input, const RingRecord& record) {
  const auto bytes = record.bytes();
  put(input, static_cast<std::uint16_t>(bytes.size()));
  input.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string well_formed(std::mt19937& random) {
  std::string input;
  std::uint64_t time = 10, seq = 0, id = 1;
  append(input, ring_batch({.generation = 1}, {}));
  for (int round = 0; round < 6; ++round) {
    std::vector<memprof_record> records;
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t tid = 1 + random() % 4;
      append(input, ring_capture({.header = {.tid = tid, .time_ns = time += 3},
                                  .stack_id = 1 + random() % 12,
                                  .alloc_idx = static_cast<std::int32_t>(random() % 3) - 1,
                                  .flags = static_cast<std::uint32_t>(random() % 2)},
                                 {0x1000, MEMPROF_RUN_MARK | 5, 0x2000}));
      records.push_back(sample_record(time += 2, id++, 1 + random() % 2, 1, tid, random() % 3));
      records.push_back(sample_record(time += 2, 1 + random() % id, 3 + random() % 3, 0, tid));
    }
    const std::uint64_t first = seq;
    seq += records.size();
    append(input, ring_batch({.header = {.time_ns = time += 1},
                              .first_seq = first,
                              .generation = 1u + (round > 3 ? 1u : 0u)},
                             records));
    PackedBatch packed(time, id);
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t depth = i % 2;
      packed.thread(1 + random() % 4)
          .alloc(static_cast<std::uint32_t>(i), 1, depth, {0x1000 + random() % 8, 0x2000},
                 random() % 2 ? MEMPROF_PACKED_DEBUGINFO : 0)
          .follow(static_cast<std::uint32_t>(i), 3 + random() % 3, random() % 4);
    }
    append(input, packed.event(seq, 1u + (round > 3 ? 1u : 0u)));
    seq += packed.head.records;
    id += 4;
    append(input, ring_lifecycle(MEMPROF_LIFECYCLE_THREAD_EXIT, 1 + random() % 4, time += 1));
  }
  return input;
}

std::vector<std::string> seeds() {
  std::mt19937 random(20240601);
  std::vector<std::string> inputs;
  for (int i = 0; i < 6; ++i) inputs.push_back(well_formed(random));
  return inputs;
}

const Add added("decoder", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
