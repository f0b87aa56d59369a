// SPDX-License-Identifier: Apache-2.0
// A program whose every block is known, sampled as Gc.Memprof samples: each word with the rate,
// into the aggregator and the history that memprofd has. What its answers say is held against
// the books. Or one whose C code takes memory, which the agent's own sampler samples byte by byte.
//
// Each site allocates blocks of one range of sizes, so many a second by chance; half of its
// blocks or none, as the site has it, die within their second, the others after an exponential
// time. Its blocks come from several threads and domains. Every run is another program.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/calibrate/c_sampler.h"
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
  // As a budget does: a rate each rate_seconds by what the one before has cost, so that there are
  // so many samples a second. 0: none.
  double samples_a_second = 0;
  // Records are lost so often in the mean, at any second; what was followed is let go. 0: never.
  double seconds_to_loss = 0;
  // Only hits are told, each at a weight that is another each second (observe mode).
  bool observe = false;
  // Of C's memory, one sample in so many bytes; rate has to be 8 over it. 0: of OCaml's.
  std::uint64_t native_interval = 0;
  int seconds = 60;

  bool one_session() const {
    return next_rates.empty() && samples_a_second == 0 && seconds_to_loss == 0;
  }
};

class SimulatedBooks {
 public:
  static constexpr int kSites = 24;
  static constexpr int kThreads = 4, kDomains = 2;
  // Two words to 64 MiB, headers not counted.
  static constexpr double kSmallestWords = 2, kLargestWords = 8 << 20;

  explicit SimulatedBooks(const BooksOptions& options)
      : options_(options), random_(options.seed), rate_(options.rate) {
    if (options.native_interval != 0) {
      c_sampler_.emplace(options.native_interval, options.seed, kThreads);
      recording_.begin_c(rate_);
    }
    recording_.symbolizer = std::make_shared<testing::TableSymbolizer>();
    recording_.set_rate(rate_);
    deaths_.resize(options.seconds + 1);
    for (Site& site : sites_) site = make_site();
    counts_.emplace_back();
    for (Lives& lives : lives_) {
      lives.alive.resize(options.seconds);
      lives.dead.resize(options.seconds + 1);
      lives.last_seen.resize(options.seconds + 1);
    }
    for (int second = 0; second < options.seconds; ++second) run_second(second);
    for (int site = 0; site < kSites; ++site) median_ages_[site] = median_age_now(lives_[site]);
    detach(options.seconds);
  }

  const Recording& recording() const { return recording_; }
  // At the end of a second of the program, 0 being the begin.
  std::uint64_t time(int second) const { return second == 0 ? kStart : times_[second - 1]; }
  // Counts of a site (from 0) since the begin; live is what the session of sampling that ran then
  // has seen allocated.
  const TrueCounts& at(int second, int site) const { return counts_[second][site]; }
  TrueCounts total(int second) const {
    TrueCounts sum;
    for (const TrueCounts& site : counts_[second]) {
      sum.allocated += site.allocated;
      sum.live += site.live;
    }
    return sum;
  }
  // Half of what is live at the end is at least this old, in seconds; 0: nothing is live.
  int median_age(int site) const { return median_ages_[site]; }
  // Bytes, from thread 1 on.
  double allocated_by(int thread) const { return by_thread_[thread - 1]; }
  // The lifetime in seconds that a share of the site's words does not exceed, of all blocks whether
  // sampled or not: their product-limit estimate. Nothing: not reached.
  std::optional<int> lifetime(int site, double q) const {
    const Lives& of = lives_[site];
    double at_risk = 0, survival = 1;
    for (std::size_t age = 0; age < of.dead.size(); ++age)
      at_risk += of.dead[age] + of.last_seen[age];
    for (std::size_t age = 0; age < of.dead.size() && at_risk > 0; ++age) {
      survival *= 1 - of.dead[age] / at_risk;
      if (survival <= 1 - q) return static_cast<int>(age);
      at_risk -= of.dead[age] + of.last_seen[age];
    }
    return std::nullopt;
  }

 private:
  // Words of a site's blocks.
  struct Lives {
    std::vector<double> alive;            // by the second of birth
    std::vector<double> dead, last_seen;  // by age in seconds
  };
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
    int born;  // second
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
    if (options_.observe) rate_ = options_.rate * log_uniform(0.1, 10);
    Counts& now = counts_.emplace_back(counts_.back());
    if (second > 0 && second % options_.rate_seconds == 0) change_rate(second);
    if (options_.seconds_to_loss > 0 && uniform(0, options_.seconds_to_loss) < 1) {
      recording_.start_over();
      detach(second);
    }
    for (const Block& block : deaths_[second]) die(block, second, now);
    deaths_[second] = {};
    for (int site = 0; site < kSites; ++site) {
      const int blocks = std::poisson_distribution<int>(sites_[site].blocks_a_second)(random_);
      for (int i = 0; i < blocks; ++i) allocate(site, second, now);
    }
    recording_.advance(kSecond);
    times_.push_back(recording_.now());
  }

  void change_rate(int second) {
    if (options_.samples_a_second > 0) {
      const double wanted = options_.samples_a_second * options_.rate_seconds;
      rate_ =
          std::clamp(rate_ * wanted / std::max(1.0, seen_), options_.rate / 10, options_.rate * 10);
      seen_ = 0;
    } else if (!options_.next_rates.empty()) {
      const std::size_t next = second / options_.rate_seconds - 1;
      rate_ = options_.next_rates[next % options_.next_rates.size()];
    } else {
      return;
    }
    recording_.set_rate(rate_);
    detach(second);
  }
  // All that is live is followed no longer.
  void detach(int second) {
    ++session_;
    if (second < options_.seconds) {
      for (TrueCounts& site : counts_.back()) site.live = site.live_objects = 0;
    }
    for (Lives& lives : lives_) {
      for (int born = 0; born < second; ++born) {
        lives.last_seen[second - born] += std::exchange(lives.alive[born], 0);
      }
    }
  }

  static int median_age_now(const Lives& of) {
    const double all = std::accumulate(of.alive.begin(), of.alive.end(), 0.0);
    double older = 0;
    for (std::size_t born = 0; born < of.alive.size() && all > 0; ++born) {
      older += of.alive[born];
      if (older >= all / 2) return static_cast<int>(of.alive.size() - born);
    }
    return 0;
  }

  void allocate(int index, int second, Counts& now) {
    const Site& site = sites_[index];
    const auto words = static_cast<std::uint64_t>(
        std::clamp(std::round(log_uniform(site.smallest, site.largest)), 1.0, kLargestWords));
    Block block{index, 0, 0, false, session_, second};
    const int thread = c_sampler_ ? take_c(block, 8 * words) : take(block, words);
    by_thread_[thread] += 8 * block.words;
    lives_[index].alive[second] += block.words;
    TrueCounts& counts = now[index];
    counts.allocated += 8 * block.words;
    counts.live += 8 * block.words;
    ++counts.allocated_objects;
    ++counts.live_objects;
    if (uniform(0, 1) < site.dies_young) return die(block, second, now);
    if (!c_sampler_) promote(block, counts);
    const double life = std::exponential_distribution<double>(1 / site.mean_seconds)(random_);
    const int end = second + 1 + static_cast<int>(std::min(1e6, life));
    if (end < static_cast<int>(deaths_.size())) deaths_[end].push_back(block);
  }
  void promote(Block& block, TrueCounts& counts) {
    block.promoted = true;
    counts.promoted += 8 * block.words;
    if (block.sample_id != 0) recording_.promote(block.sample_id);
  }

  // Samples a block of so many words and a header; answers with who took it, counted from 0.
  int take(Block& block, std::uint64_t words) {
    const auto callstack = static_cast<std::uint32_t>(block.site + 1);
    block.words = static_cast<double>(words + 1);
    const std::uint64_t samples = sample(words + 1);
    seen_ += static_cast<double>(samples);
    const int thread = static_cast<int>(random_() % kThreads);
    const auto tid = static_cast<std::uint32_t>(thread + 1);
    for (std::uint64_t hit = 0; options_.observe && hit < samples; ++hit) {
      recording_.observe(
          {CallstackId(callstack), tid, 0, static_cast<std::uint32_t>(words), 1 / rate_});
    }
    if (samples == 0 || options_.observe) return thread;
    block.sample_id = ++last_id_;
    recording_.alloc(block.sample_id, callstack, static_cast<std::uint32_t>(samples), words, tid,
                     static_cast<std::uint16_t>(random_() % kDomains));
    return thread;
  }
  // The same of C's memory, whose blocks count among what is old.
  int take_c(Block& block, std::uint64_t bytes) {
    block.words = static_cast<double>(bytes) / 8;
    block.promoted = true;
    const int thread = static_cast<int>(random_() % kThreads);
    const std::uint32_t samples = c_sampler_->sample(thread, bytes);
    if (samples == 0) return thread;
    block.sample_id = ++last_id_;
    recording_.native_alloc(block.sample_id, static_cast<std::uint32_t>(block.site + 1), samples,
                            bytes, static_cast<std::uint32_t>(thread + 1));
    return thread;
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
  void die(const Block& block, int second, Counts& now) {
    if (block.session != session_) return;
    Lives& lives = lives_[block.site];
    lives.alive[block.born] -= block.words;
    lives.dead[second - block.born] += block.words;
    TrueCounts& counts = now[block.site];
    counts.live -= 8 * block.words;
    --counts.live_objects;
    (block.promoted ? counts.died_old : counts.died_young) += 8 * block.words;
    if (block.sample_id == 0) return;
    if (c_sampler_) return recording_.native_free(block.sample_id, 1);
    recording_.die(block.sample_id, block.promoted ? MEMPROF_DEALLOC_MAJOR : MEMPROF_DEALLOC_MINOR);
  }

  const BooksOptions options_;
  std::mt19937_64 random_;
  std::optional<NativeSampler> c_sampler_;
  double rate_;
  int session_ = 0;
  std::uint64_t last_id_ = 0;
  double seen_ = 0;  // samples since the rate was chosen
  std::array<double, kThreads> by_thread_{};
  std::array<Lives, kSites> lives_;
  std::array<int, kSites> median_ages_{};
  std::array<Site, kSites> sites_;
  Recording recording_;
  std::vector<std::vector<Block>> deaths_;  // by second
  std::vector<Counts> counts_;              // by second, from the begin on
  std::vector<std::uint64_t> times_;        // ends of the seconds
};

}  // namespace memprofd
