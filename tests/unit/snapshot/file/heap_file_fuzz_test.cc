// SPDX-License-Identifier: Apache-2.0
// The fuzz target under pseudo-random mutations of well-formed files, the same in every run.
#include <gtest/gtest.h>

#include <random>

#define LLVMFuzzerTestOneInput heap_file_fuzz_one_input
#include "tests/fuzz/heap_file_fuzz.cc"
#include "tests/kit/fuzzing.h"
#include "tests/kit/heap_file.h"

namespace memprofd {
namespace {

std::string seed_file(unsigned seed) {
  std::mt19937 random(seed);
  FakeChunks heap;
  std::vector<std::vector<std::uint64_t>> blocks;
  for (int i = 0; i < 60; ++i) {
    if (i % 20 == 0) blocks.push_back(block(2, kContinuationTag));
    blocks.push_back(
        block(1 + random() % 50, random() % 2 * kClosureTag, random() % 6 == 0 ? kBlue : kBlack));
  }
  const std::uint64_t chunk = heap.put_chunk(joined(blocks));
  for (std::uint64_t i = 0; i < 300; ++i) {
    heap.memory.poke(chunk + 8 * (random() % 500), chunk + 8 * (random() % 500));
  }
  std::uint64_t at = chunk;  // headers again
  for (const auto& one : blocks) {
    heap.memory.poke(at, one[0]);
    if (tag_of(one[0]) == kContinuationTag) heap.memory.poke(at + 8, (chunk + 8) | 1);
    at += 8 * one.size();
  }
  return *heap_file_of(heap.memory, *heap.map(), [&](HeapFileWriter& writer) {
    const Location place{.function = "Server.loop", .file = "server.ml", .line = seed};
    for (std::uint32_t i = 0; i < 20; ++i) {
      writer.add_root(chunk + 8 * (random() % 500),
                      {.kind = RootKind::kStack, .owner = "thread", .field = i, .place = place});
    }
    const auto site = writer.add_site({place, place});
    writer.add_sample(chunk + 8, 5, 2, site);
    writer.add_sample(0, 6, 1, site);
  });
}

TEST(HeapFileFuzz, MutatedFiles) {
  std::vector<std::string> seeds;
  for (unsigned i = 0; i < 6; ++i) seeds.push_back(seed_file(i));
  fuzz(seeds, FuzzRounds(3'000, 300'000), LLVMFuzzerTestOneInput, kHeapFileStartBytes);
}

}  // namespace
}  // namespace memprofd
