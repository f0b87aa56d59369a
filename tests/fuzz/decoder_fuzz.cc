// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes through a pipeline as ring buffer records and checks
// that the sums still agree. Input: a sequence of (u16 length, bytes).
//
//   clang++ -std=c++20 -g -O1 -I. -fsanitize=fuzzer,address,undefined
//     tests/fuzz/decoder_fuzz.cc daemon/{ingest,aggregate}/*.cc -labsl_... -o decoder_fuzz
//
// tests/unit/ingest/decoder_fuzz_test.cc runs it with fixed mutations in every build.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "daemon/pipeline/pipeline.h"

namespace memprofd {
namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "decoder_fuzz: %s\n", what);
  std::abort();
}

// Small limits, so that short inputs reach them.
PipelineLimits small_limits() {
  return {.max_live_samples = 50,
          .callstacks = {.callstacks = 4, .entries = 64, .cut_callstacks = 4, .cut_hashes = 8},
          .pairing = {.threads = 3, .captures_per_thread = 10, .captures = 20}};
}

void check_sums(const Pipeline& pipeline) {
  TargetSnapshot snapshot;
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

}  // namespace
}  // namespace memprofd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  memprofd::Pipeline pipeline(memprofd::small_limits());
  pipeline.begin_session(1, 0.01);
  pipeline.begin_session(2, 0.1);
  std::vector<std::uint64_t> record;
  while (size >= 2) {
    std::uint16_t length;
    std::memcpy(&length, data, sizeof length);
    data += 2;
    size -= 2;
    const std::size_t bytes = length < size ? length : size;
    // Exactly as long as the record, so that a sanitizer sees reads behind it.
    record.assign((bytes + 7) / 8, 0);
    record.shrink_to_fit();
    if (bytes > 0) std::memcpy(record.data(), data, bytes);
    pipeline.on_ring_record({reinterpret_cast<const std::byte*>(record.data()), bytes});
    data += bytes;
    size -= bytes;
  }
  memprofd::check_sums(pipeline);
  pipeline.end();
  memprofd::check_sums(pipeline);
  return 0;
}
