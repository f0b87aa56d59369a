// SPDX-License-Identifier: Apache-2.0
// What is counted after lost batches, held to the truth over many runs: no bias, and errors that
// are as large as they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "daemon/pipeline/pipeline.h"
#include "tests/kit/full_length.h"
#include "tests/kit/ring_events.h"

namespace memprofd {
namespace {

constexpr double kRate = 0.01;

struct Site {
  std::uint64_t words;  // of a block, header included
  int blocks;           // in each half of a run
};
constexpr std::array<Site, 5> kSites = {
    {{4, 30'000}, {9, 10'000}, {40, 2'000}, {301, 200}, {1'501, 150}}};

// A program of whose first half batches are lost by chance, the last one for certain. Another half
// follows, so that nothing is owed at the end. Every second block dies at once.
class LossyRun {
 public:
  LossyRun(unsigned seed, double lost_share) : random_(seed), lost_share_(lost_share) {
    pipeline.expect({});
    pipeline.begin_session(1, kRate);
    pipeline.on_ring_record(ring_batch({.generation = 1}, {}).bytes());
    for (int half = 0; half < 2; ++half) {
      for (const std::size_t site : sampled_blocks()) allocate(site);
      if (half == 0 && lost_share_ > 0) lost_share_ = 1;
      flush();
      lost_share_ = 0;
    }
  }

  // The callstack's number is the site's: captured in time order, side by side.
  Estimate allocated(std::size_t site) const {
    Estimate sum;
    ProfileSnapshot snapshot;
    pipeline.fill(snapshot);
    for (const ProfileRow& row : snapshot.rows) {
      if (row.callstack->hash.value() == site + 1) sum += row.counters.allocated;
    }
    return sum;
  }
  Estimate live() const { return pipeline.aggregator().totals().live; }

  Pipeline pipeline;

 private:
  // Blocks of a half that have any sample, in the order in which they are allocated.
  std::vector<std::size_t> sampled_blocks() {
    std::vector<std::size_t> blocks;
    for (std::size_t site = 0; site < kSites.size(); ++site) {
      const double p = -std::expm1(static_cast<double>(kSites[site].words) * std::log1p(-kRate));
      blocks.insert(blocks.end(), std::binomial_distribution<int>(kSites[site].blocks, p)(random_),
                    site);
    }
    std::shuffle(blocks.begin(), blocks.end(), random_);
    return blocks;
  }
  // Sampled words of such a block: the first one, and chance behind it.
  std::uint32_t samples_of(std::uint64_t words) {
    const double p = -std::expm1(static_cast<double>(words) * std::log1p(-kRate));
    const double dice = std::uniform_real_distribution<double>()(random_);
    const auto first = static_cast<std::uint64_t>(std::log1p(-dice * p) / std::log1p(-kRate));
    const auto behind = static_cast<int>(words - 1 - std::min(first, words - 1));
    return 1 + static_cast<std::uint32_t>(std::binomial_distribution<int>(behind, kRate)(random_));
  }
  void allocate(std::size_t site) {
    ++time_;
    pipeline.on_ring_record(ring_capture({.header = {.tid = 7, .time_ns = time_},
                                          .stack_id = site + 1,
                                          .alloc_idx = 0,
                                          .n_frames = 1},
                                         {site + 1})
                                .bytes());
    memprof_record record =
        sample_record(++time_, ++last_id_, MEMPROF_ALLOC_MINOR, samples_of(kSites[site].words));
    record.size_words = kSites[site].words - 1;
    append(record);
    if (last_id_ % 2 == 0) append(sample_record(++time_, last_id_, MEMPROF_DEALLOC_MINOR));
  }
  void append(const memprof_record& record) {
    unflushed_.push_back(record);
    if (unflushed_.size() >= 100) flush();
  }
  void flush() {
    if (std::uniform_real_distribution<double>()(random_) >= lost_share_) {
      pipeline.on_ring_record(
          ring_batch({.header = {.time_ns = time_}, .first_seq = next_seq_, .generation = 1},
                     unflushed_)
              .bytes());
    }
    next_seq_ += unflushed_.size();
    unflushed_.clear();
  }

  std::mt19937_64 random_;
  double lost_share_;
  std::uint64_t time_ = 10;
  std::uint64_t last_id_ = 0;
  std::uint64_t next_seq_ = 0;
  std::vector<memprof_record> unflushed_;
};

// Answers about one quantity, over runs. What is known for certain has no place in how sure they
// are: large blocks, where nothing is lost.
class Pooled {
 public:
  void add(const Estimate& shown, double truth) {
    const double error = std::sqrt(shown.variance_words2);
    const Limits limits = shown.limits_bytes(0);
    estimated_ += shown.words;
    truth_ += truth;
    variance_ += shown.variance_words2;
    ++n_;
    if (error < 1e-3 * truth) return;
    ++unsure_;
    squares_ += (shown.words - truth) * (shown.words - truth) / (error * error);
    covered_ += limits.lower <= 8 * truth && 8 * truth <= limits.upper ? 1 : 0;
  }
  double bias() const { return estimated_ / truth_ - 1; }
  double error_of_bias() const { return std::sqrt(variance_) / truth_; }
  double error() const { return std::sqrt(variance_ / n_); }  // in the mean
  double z_deviation() const { return std::sqrt(squares_ / unsure_); }
  double covered() const { return covered_ / unsure_; }

 private:
  double estimated_ = 0, truth_ = 0, variance_ = 0, squares_ = 0, covered_ = 0, n_ = 0, unsure_ = 0;
};

struct Result {
  Pooled total, sites;
  std::array<Pooled, kSites.size()> by_site;
};

Result runs(double lost_share, int n) {
  Result result;
  for (int seed = 0; seed < n; ++seed) {
    const LossyRun run(static_cast<unsigned>(seed), lost_share);
    Estimate sum;
    double sum_truth = 0;
    for (std::size_t site = 0; site < kSites.size(); ++site) {
      const Estimate shown = run.allocated(site);
      const double truth = 2.0 * static_cast<double>(kSites[site].words) * kSites[site].blocks;
      result.by_site[site].add(shown, truth);
      result.sites.add(shown, truth);
      sum += shown;
      sum_truth += truth;
    }
    result.total.add(sum, sum_truth);
  }
  return result;
}

class Losses : public testing::TestWithParam<double> {};

TEST_P(Losses, TotalsAreUnbiasedAndTheirErrorsRight) {
  const double lost_share = GetParam();
  const Result result = runs(lost_share, rounds_of(100, 400));
  std::printf(
      "lost %2.0f %%: total %+.2f %%, sites: z %.2f, in the interval %.1f %%, error x %.2f\n",
      100 * lost_share, 100 * result.total.bias(), result.sites.z_deviation(),
      100 * result.sites.covered(), result.total.error());
  EXPECT_LT(std::abs(result.total.bias()), std::max(0.005, 2.5 * result.total.error_of_bias()));
  for (const Pooled& site : result.by_site) {
    EXPECT_LT(std::abs(site.bias()), std::max(0.005, 3 * site.error_of_bias()));
  }
  EXPECT_NEAR(result.sites.z_deviation(), 1, 0.12);
  EXPECT_GE(result.sites.covered(), 0.93);
  EXPECT_LE(result.sites.covered(), 0.97);
}

INSTANTIATE_TEST_SUITE_P(Shares, Losses, testing::Values(0.0, 0.05, 0.2, 0.5, 0.8));

TEST(LossesTest, TheMoreIsLostTheLargerTheErrorThatIsShown) {
  double before = 0;
  for (const double share : {0.0, 0.2, 0.5, 0.8}) {
    const double error = runs(share, 10).total.error();
    EXPECT_GT(error, 1.05 * before) << share;
    before = error;
  }
}

// What is live is what was allocated since, no more: half of the words, and those that count for
// others are followed as seldom as they count for more.
TEST(LossesTest, LiveIsNotCorrected) {
  double live = 0, truth = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const LossyRun run(seed, 0.5);
    live += run.live().words;
    for (const Site& site : kSites) truth += static_cast<double>(site.words) * site.blocks / 2;
  }
  EXPECT_NEAR(live / truth, 1, 0.04) << "of the second half, of which nothing is lost";
}

}  // namespace
}  // namespace memprofd
