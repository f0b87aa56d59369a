// SPDX-License-Identifier: Apache-2.0
// Coverage of the interval for the number of blocks, in simulated streams.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>

#include "daemon/model/size_bucket.h"
#include "daemon/query/group.h"

namespace memprofd {
namespace {

constexpr double kRate = 1e-4;

// Samples of blocks by class of size, as a table of classes has them.
class Stream {
 public:
  explicit Stream(std::uint64_t seed) : random_(seed), next_(gap_(random_)) {}

  // The classes no longer distinguish the sizes of an octave.
  void merge_sizes() { by_octave_ = true; }

  std::mt19937_64& random() { return random_; }
  void alloc(std::uint64_t words, bool told = true) {
    const SizeBucket size = by_octave_ ? SizeBucket::of(words).of_octave() : SizeBucket::of(words);
    const auto block = static_cast<double>(words) + 1;
    std::uint64_t n = 0;
    for (; next_ <= words; next_ += 1 + gap_(random_)) ++n;
    next_ -= words + 1;
    if (n == 0) return;
    Counters& of = classes_[told ? size : SizeBucket()];
    const bool whole = told && size.fine();
    of.add_allocated(whole ? 1 : n, whole ? weight_of_block(block, kRate) : weight_of_word(kRate),
                     told ? size.middle_words() + 1 : INFINITY);
  }
  Limits limits() const {
    GroupCounts group;
    for (const auto& [size, counters] : classes_) group.add_class({.size = size}, counters);
    group.unseen = {group.counters.allocated.grain_or(kRate), 0};
    return measure_limits(group, Measure::kAllocatedObjects);
  }

 private:
  std::mt19937_64 random_;
  std::geometric_distribution<std::uint64_t> gap_{kRate};
  std::uint64_t next_;  // words before the next one that is sampled
  std::map<SizeBucket, Counters> classes_;
  bool by_octave_ = false;
};

// The share of streams whose interval has the number of blocks.
template <typename Alloc>
double coverage(int blocks, Alloc alloc) {
  constexpr int kStreams = 400;
  int covered = 0;
  for (int i = 0; i < kStreams; ++i) {
    Stream stream(static_cast<std::uint64_t>(i) + 1);
    for (int block = 0; block < blocks; ++block) alloc(stream);
    const Limits limits = stream.limits();
    if (limits.lower <= blocks && blocks <= limits.upper) ++covered;
  }
  return covered / static_cast<double>(kStreams);
}

// Log-uniform sizes over that many octaves.
auto skewed(int octaves) {
  return [octaves](Stream& stream) {
    const std::uint64_t least = std::uint64_t{1} << stream.random()() % octaves;
    stream.alloc(least + stream.random()() % least);
  };
}

TEST(BlockLimits, CoverWhereSizesVary) {
  for (const int blocks : {300, 2000, 20'000}) EXPECT_GT(coverage(blocks, skewed(12)), 0.93);
  EXPECT_GT(coverage(3000, skewed(9)), 0.93);
}

TEST(BlockLimits, OfOneSizeTheyAreAsNarrowAsItsSamples) {
  const auto one_size = [](Stream& stream) { stream.alloc(40); };
  EXPECT_GT(coverage(20'000, one_size), 0.93);
  Stream stream(1);
  for (int i = 0; i < 20'000; ++i) one_size(stream);
  EXPECT_LT(stream.limits().upper, 1.4 * 20'000);
}

// If the table of classes is full, sizes are unknown, and the blocks may be the smallest.
TEST(BlockLimits, UntoldSizesAreInTheUpperOne) {
  const auto half_untold = [](Stream& stream) { stream.alloc(5, stream.random()() % 2 == 0); };
  EXPECT_GT(coverage(20'000, half_untold), 0.95);
}

// If the table of classes is nearly full, sizes are known to an octave.
TEST(BlockLimits, CoverEverySizeOfAnOctave) {
  const auto of_size = [](std::uint64_t words) {
    return [words](Stream& stream) {
      stream.merge_sizes();
      stream.alloc(words);
    };
  };
  for (const std::uint64_t words : {2, 3, 8, 15, 32, 63, 256, 511, 512, 1023, 4096, 8191}) {
    EXPECT_GT(coverage(2000, of_size(words)), 0.93) << words << " words";
  }
}

}  // namespace
}  // namespace memprofd
