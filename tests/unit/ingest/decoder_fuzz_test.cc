// SPDX-License-Identifier: Apache-2.0
// The fuzz target under pseudo-random mutations of well-formed event sequences,
// the same in every run.
#include <gtest/gtest.h>

#include <random>

#define LLVMFuzzerTestOneInput decoder_fuzz_one_input
#include "tests/fuzz/decoder_fuzz.cc"
#include "tests/kit/fuzzing.h"
#include "tests/kit/packed_batch.h"
#include "tests/kit/ring_events.h"

namespace memprofd {
namespace {

using Bytes = std::vector<std::uint8_t>;

void append(Bytes& input, const RingRecord& record) {
  const auto bytes = record.bytes();
  const auto length = static_cast<std::uint16_t>(bytes.size());
  input.push_back(length & 0xff);
  input.push_back(length >> 8);
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  input.insert(input.end(), data, data + bytes.size());
}

Bytes well_formed(std::mt19937& random) {
  Bytes input;
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

void mutate(Bytes& input, std::mt19937& random) {
  static constexpr std::uint8_t kTelling[] = {0, 1, 0x7f, 0x80, 0xff};
  for (std::size_t n = random() % 8; n > 0; --n) {
    std::uint8_t& byte = input[random() % input.size()];
    switch (random() % 3) {
      case 0:
        byte ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 1:
        byte = static_cast<std::uint8_t>(random());
        break;
      default:
        byte = kTelling[random() % std::size(kTelling)];
    }
  }
  if (random() % 8 == 0) input.resize(1 + random() % input.size());
}

TEST(DecoderFuzzTest, MutationsKeepTheSumsRight) {
  std::mt19937 random(fuzz_seed(20240601));
  FuzzRounds rounds(300, 20'000);
  while (rounds.next()) {
    Bytes input = well_formed(random);
    mutate(input, random);
    ASSERT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  }
}

TEST(DecoderFuzzTest, RandomBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    Bytes input(random() % 400);
    for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random() % 4);
    ASSERT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  }
}

}  // namespace
}  // namespace memprofd
