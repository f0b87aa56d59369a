// SPDX-License-Identifier: Apache-2.0
// The fuzz target under pseudo-random mutations of well-formed files, the same in every run.
#include <gtest/gtest.h>

#include <random>

#define LLVMFuzzerTestOneInput heap_file_fuzz_one_input
#include "tests/fuzz/heap_file_fuzz.cc"
#include "tests/kit/full_length.h"
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

void mutate(std::string& input, std::mt19937& random) {
  static constexpr std::uint8_t kTelling[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
  for (std::size_t n = 1 + random() % 4; n > 0; --n) {
    const std::size_t at = kHeapFileStartBytes + random() % (input.size() - kHeapFileStartBytes);
    const std::size_t count = std::min<std::size_t>(input.size() - at, random() % 40);
    switch (random() % 6) {
      case 0:
        input[at] = static_cast<char>(input[at] ^ 1 << random() % 8);
        break;
      case 1:
        input[at] = static_cast<char>(random());
        break;
      case 2:
        input[at] = static_cast<char>(kTelling[random() % std::size(kTelling)]);
        break;
      case 3:
        std::fill_n(input.begin() + static_cast<std::ptrdiff_t>(at), count, '\xff');
        break;
      case 4:
        input.insert(at, input.substr(at, count));
        break;
      default:
        if (random() % 8 == 0) input.resize(at + 1);
    }
  }
}

TEST(HeapFileFuzz, MutatedFiles) {
  std::vector<std::string> seeds;
  for (unsigned i = 0; i < 6; ++i) seeds.push_back(seed_file(i));
  std::mt19937 random(20260101);
  const int rounds = rounds_of(3'000, 300'000);
  for (int i = 0; i < rounds; ++i) {
    std::string input = seeds[random() % seeds.size()];
    mutate(input, random);
    const auto* data = reinterpret_cast<const std::uint8_t*>(input.data());
    ASSERT_EQ(LLVMFuzzerTestOneInput(data, input.size()), 0);
  }
}

}  // namespace
}  // namespace memprofd
