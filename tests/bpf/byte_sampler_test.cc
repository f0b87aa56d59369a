// SPDX-License-Identifier: Apache-2.0
// The kernel's sampler of bytes, run on the host.
#include <gtest/gtest.h>
#include <linux/types.h>

#include <cmath>
#include <random>

namespace {

std::mt19937_64 generator(1);

__u64 memprof_random() { return generator(); }

#include "bpf/byte_sampler.h"

TEST(ByteSampler, LogarithmsAreThoseOfMathematics) {
  std::mt19937_64 numbers(2);
  for (int i = 0; i < 1'000'000; ++i) {
    const __u64 v = numbers() >> (1 + numbers() % 40);
    const double exact = -std::log1p(-std::ldexp(static_cast<double>(v), -64)) * 0x1p64;
    const auto found = static_cast<double>(memprof_minus_ln_of_rest(v));
    ASSERT_NEAR(found, exact, 4 + 3e-9 * exact) << v;
  }
  EXPECT_EQ(memprof_minus_ln_of_rest(0), 0u);
  EXPECT_EQ(memprof_minus_ln_of_rest(1), 1u);
}

TEST(ByteSampler, UpperHalvesOfProducts) {
  std::mt19937_64 numbers(3);
  for (int i = 0; i < 100'000; ++i) {
    const __u64 a = numbers() >> numbers() % 64, b = numbers() >> numbers() % 64;
    const auto product = static_cast<unsigned __int128>(a) * b;
    ASSERT_EQ(memprof_high_product(a, b), static_cast<__u64>(product >> 64));
  }
}

TEST(ByteSampler, LeadingZeros) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    EXPECT_EQ(memprof_leading_zeros(1ULL << bit), 63 - bit);
    EXPECT_EQ(memprof_leading_zeros(~0ULL >> bit), bit);
  }
}

TEST(ByteSampler, ExtremesOfChance) {
  const __u64 scale = MEMPROF_SAMPLER_SCALE(512 << 10);
  EXPECT_EQ(memprof_sampler_step(~0ULL, scale), 1u);
  EXPECT_GT(memprof_sampler_step(0, scale), 40ull * (512 << 10));
  EXPECT_EQ(memprof_sample_bytes(0, scale), 0u);
}

// Each byte with the same probability: the number of samples of a small block has the mean and the
// variance of so many throws; a large one has at most one, as often as any byte of it is hit.
TEST(ByteSampler, EachByteIsSampledWithTheSameProbability) {
  constexpr int kThrows = 400'000;
  for (const __u64 interval : {1024ull, 4096ull, 524'288ull, 1ull << 40}) {
    const __u64 scale = MEMPROF_SAMPLER_SCALE(interval);
    for (const __u64 bytes : {1ull, 16ull, 1000ull, 4095ull, 4096ull, 100'000ull}) {
      const double chance = 1 / static_cast<double>(interval);
      const double any = -std::expm1(static_cast<double>(bytes) * std::log1p(-chance));
      const double mean =
          bytes < MEMPROF_NATIVE_HEAP_ONE_SAMPLE ? static_cast<double>(bytes) * chance : any;
      const double variance = bytes < MEMPROF_NATIVE_HEAP_ONE_SAMPLE ? mean : mean * (1 - mean);
      double sum = 0, hit = 0;
      for (int i = 0; i < kThrows; ++i) {
        const __u32 n = memprof_sample_bytes(bytes, scale);
        sum += n;
        hit += n > 0;
      }
      const double few = 5;  // of what hardly ever happens
      EXPECT_NEAR(sum, kThrows * mean, 5 * std::sqrt(kThrows * variance) + few)
          << bytes << " bytes, 1 in " << interval;
      EXPECT_NEAR(hit, kThrows * any, 5 * std::sqrt(kThrows * any * (1 - any)) + few)
          << bytes << " bytes, 1 in " << interval;
    }
  }
}

}  // namespace
