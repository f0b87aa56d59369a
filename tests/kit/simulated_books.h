// SPDX-License-Identifier: Apache-2.0
// A program whose every block is known, sampled as Gc.Memprof samples: each word with the rate,
// into the aggregator and the history that memprofd has. What its answers say is held against
// the books.
//
// Each site allocates blocks of one range of sizes, so many a second by chance; half of its
// blocks or none, as the site has it, die within their second, the others after an exponential
// time. Every run is another program.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/kit/fake_profile.h"
#include "tests/kit/recording.h"

namespace memprofd {

// What a site really has.
struct TrueCounts {
  double allocated = 0;  // bytes, headers included
  double promoted = 0;
  double live = 0;
  double died_young = 0;
  double died_old = 0;
  double allocated_objects = 0;
  double live_objects = 0;
};

struct BooksOptions {
  unsigned seed = 1;
  double rate = 1e-3;
  // Rates that follow each other every rate_seconds, after the first; empty: one rate.
  std::vector<double> next_rates;
  int rate_seconds = 15;
  int seconds = 60;
};

class SimulatedBooks {
 public:
  static constexpr int kSites = 24;
  // Two words to 64 MiB, headers not counted.
  static constexpr double kSmallestWords = 2, kLargestWords = 8 << 20;

  explicit SimulatedBooks(const BooksOptions& options)
      : options_(options), random_(options.seed), rate_(options.rate) {
    recording_.symbolizer = std::make_shared<testing::TableSymbolizer>();
    recording_.set_rate(rate_);
    deaths_.resize(options.seconds + 1);
    for (Site& site : sites_) site = make_site();
    counts_.emplace_back();
    for (int second = 0; second < options.seconds; ++second) run_second(second);
  }

  const Recording& recording() const { return recording_; }
  // At the end of a second of the program, 0 being the begin.
  std::uint64_t time(int second) const { return second == 0 ? kStart : times_[second - 1]; }
  // Of a site, from 0: since the begin, live as of the current session of sampling.
  const TrueCounts& at(int second, int site) const { return counts_[second][site]; }
  TrueCounts total(int second) const {
    TrueCounts sum;
    for (const TrueCounts& site : counts_[second]) {
      sum.allocated += site.allocated;
      sum.live += site.live;
    }
    return sum;
  }

 private:
  struct Site {
    double blocks_a_second;
    double smallest, largest;  // words
    double dies_young;         // share of the blocks
    double mean_seconds;       // of life, of the others
  };
  struct Block {
    int site;
    double words;             // with the header
    std::uint64_t sample_id;  // 0: not sampled
    bool promoted;
    int session;
  };
  using Counts = std::array<TrueCounts, kSites>;

  double uniform(double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random_);
  }
  double log_uniform(double from, double to) {
    return std::exp(uniform(std::log(from), std::log(to)));
  }

  // Two thirds of the sites have small blocks; the samples of a site are 1 to 1,000 by the rate it
  // begins with.
  Site make_site() {
    Site site{};
    const bool small = uniform(0, 1) < 0.67;
    const double a = log_uniform(kSmallestWords, small ? 300 : kLargestWords);
    const double b = log_uniform(kSmallestWords, small ? 300 : kLargestWords);
    site.smallest = std::min(a, b);
    site.largest = std::max(a, b);
    const double mean =
        site.largest - site.smallest < 1
            ? site.largest
            : (site.largest - site.smallest) / std::log(site.largest / site.smallest);
    const double samples = log_uniform(1, 1000);
    site.blocks_a_second = std::min(2'000.0, samples / options_.rate / mean / options_.seconds);
    site.dies_young = uniform(0, 1) < 0.5 ? 0.5 : 0;
    site.mean_seconds = log_uniform(0.5, 60);
    return site;
  }

  void run_second(int second) {
    if (second > 0 && !options_.next_rates.empty() && second % options_.rate_seconds == 0) {
      const std::size_t next = second / options_.rate_seconds - 1;
      rate_ = options_.next_rates[next % options_.next_rates.size()];
      recording_.set_rate(rate_);
      ++session_;
      for (TrueCounts& site : counts_.back()) site.live = site.live_objects = 0;
    }
    Counts& now = counts_.emplace_back(counts_.back());
    for (const Block& block : deaths_[second]) die(block, now);
    deaths_[second] = {};
    for (int site = 0; site < kSites; ++site) {
      const int blocks = std::poisson_distribution<int>(sites_[site].blocks_a_second)(random_);
      for (int i = 0; i < blocks; ++i) allocate(site, second, now);
    }
    recording_.advance(kSecond);
    times_.push_back(recording_.now());
  }

  void allocate(int index, int second, Counts& now) {
    const Site& site = sites_[index];
    const auto words = static_cast<std::uint64_t>(
        std::clamp(std::round(log_uniform(site.smallest, site.largest)), 1.0, kLargestWords));
    Block block{index, static_cast<double>(words + 1), 0, false, session_};
    const std::uint64_t samples = sample(words + 1);
    TrueCounts& counts = now[index];
    counts.allocated += 8 * block.words;
    counts.live += 8 * block.words;
    ++counts.allocated_objects;
    ++counts.live_objects;
    if (samples > 0) {
      block.sample_id = ++last_id_;
      recording_.alloc(block.sample_id, static_cast<std::uint32_t>(index + 1),
                       static_cast<std::uint32_t>(samples), words);
    }
    if (uniform(0, 1) < site.dies_young) return die(block, now);
    block.promoted = true;
    counts.promoted += 8 * block.words;
    if (block.sample_id != 0) recording_.promote(block.sample_id);
    const double life = std::exponential_distribution<double>(1 / site.mean_seconds)(random_);
    const int end = second + 1 + static_cast<int>(std::min(1e6, life));
    if (end < static_cast<int>(deaths_.size())) deaths_[end].push_back(block);
  }

  // As many of the words as the rate would sample.
  std::uint64_t sample(std::uint64_t words) {
    const double any = -std::expm1(static_cast<double>(words) * std::log1p(-rate_));
    if (uniform(0, 1) >= any) return 0;
    while (true) {
      const auto n = std::binomial_distribution<std::uint64_t>(words, rate_)(random_);
      if (n > 0) return n;
      if (static_cast<double>(words) * rate_ < 0.01) return 1;
    }
  }

  // Blocks of a session before are not followed, and nothing is told of them.
  void die(const Block& block, Counts& now) {
    if (block.session != session_) return;
    TrueCounts& counts = now[block.site];
    counts.live -= 8 * block.words;
    --counts.live_objects;
    (block.promoted ? counts.died_old : counts.died_young) += 8 * block.words;
    if (block.sample_id == 0) return;
    recording_.die(block.sample_id, block.promoted ? MEMPROF_DEALLOC_MAJOR : MEMPROF_DEALLOC_MINOR);
  }

  const BooksOptions options_;
  std::mt19937_64 random_;
  double rate_;
  int session_ = 0;
  std::uint64_t last_id_ = 0;
  std::array<Site, kSites> sites_;
  Recording recording_;
  std::vector<std::vector<Block>> deaths_;  // by second
  std::vector<Counts> counts_;              // by second, from the begin on
  std::vector<std::uint64_t> times_;        // ends of the seconds
};

}  // namespace memprofd
