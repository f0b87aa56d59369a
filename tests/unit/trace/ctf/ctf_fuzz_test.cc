// SPDX-License-Identifier: Apache-2.0
// The fuzz target under pseudo-random mutations of well-formed traces, the same
// in every run.
#include <gtest/gtest.h>

#include <random>

#define LLVMFuzzerTestOneInput ctf_fuzz_one_input
#include "tests/fuzz/ctf_fuzz.cc"
#include "tests/kit/ctf_trace.h"
#include "tests/kit/fuzzing.h"

namespace memprofd::ctf {
namespace {

using Input = std::vector<std::uint8_t>;

Input input_of(const testing::MemoryFile& file) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(file.bytes().data());
  return {data, data + file.bytes().size()};
}

// Changes, removes and doubles bytes; mostly behind the description.
void mutate(Input& input, std::mt19937& random) {
  static constexpr std::uint8_t kTelling[] = {0, 1, 0x7f, 0x80, 0xfd, 0xff};
  for (std::size_t n = 1 + random() % 6; n > 0; --n) {
    const std::size_t at = random() % input.size();
    if (at < 120 && random() % 16 != 0) continue;
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    const auto rest = static_cast<std::size_t>(input.end() - place);
    const auto count = static_cast<std::ptrdiff_t>(random() % std::min<std::size_t>(rest, 200));
    switch (random() % 6) {
      case 0:
        *place ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 1:
        *place = static_cast<std::uint8_t>(random());
        break;
      case 2:
        *place = kTelling[random() % std::size(kTelling)];
        break;
      case 3:
        input.erase(place, place + count);
        break;
      case 4: {
        const Input part(place, place + count);
        input.insert(place, part.begin(), part.end());
        break;
      }
      default:
        if (random() % 8 == 0) input.resize(at + 1);
    }
  }
}

TEST(CtfFuzzTest, MutatedTraces) {
  std::vector<Input> seeds;
  for (unsigned i = 0; i < 6; ++i) {
    seeds.push_back(input_of(testing::write_workload(i, 150, i % 2 == 0 ? 2 : 3,
                                                     static_cast<std::uint16_t>(1 + i % 3), 20)));
  }
  std::mt19937 random(fuzz_seed(20240601));
  FuzzRounds rounds(200, 20'000);
  while (rounds.next()) {
    Input input = seeds[random() % seeds.size()];
    mutate(input, random);
    ASSERT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  }
}

TEST(CtfFuzzTest, RandomBytesBehindADescription) {
  std::mt19937 random(7);
  const Input description = input_of(testing::write_workload(1, 0, 2));
  for (int i = 0; i < 500; ++i) {
    Input input = description;
    for (std::size_t n = random() % 400; n > 0; --n) {
      input.push_back(random() % 8 == 0 ? static_cast<std::uint8_t>(random()) : 0xC1);
    }
    ASSERT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  }
}

}  // namespace
}  // namespace memprofd::ctf
