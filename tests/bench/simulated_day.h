// SPDX-License-Identifier: Apache-2.0
// Simulates 24 hours of a sampled target with ten thousand allocation sites, in seconds.
//
// Sites: each has one callstack of 30 frames. The innermost frame is the site's own function; sites
// share the others in a tree (about 40,000 call sites in total) of 100 modules. All blocks of a
// site have the same size.
//
// Rate: 2,000 samples per second over all sites, which is 160 MB/s at 1e-4. A site's share follows
// Zipf's law (exponent 1) or is equal. At 2,000 per second even the last site of Zipf's law is
// active in most minutes.
//
// Lifetimes: a minor collection occurs every 13 ms (256k words), so blocks that die young have
// lived 0 to 13 ms. Promoted blocks die after an exponentially distributed time, and the death is
// noticed within a major cycle of 20 s:
//
//   sites   promoted   mean life
//   60 %    2 %        1 s
//   30 %    20 %       1 s to 1 min
//   9 %     70 %       1 min to 3 h
//   1 %     0.1 %      infinite: leaks
//
// Speed: the first 22 h advance in steps of a minute (or longer, if their history may be coarse),
// then of 10 s, and the last 10 min of a second. The simulation counts directly what the
// aggregator would, without events: benchmarks measure the use of 173 million samples, not their
// ingest.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/aggregate/alloc_class_table.h"
#include "daemon/aggregate/counters.h"
#include "daemon/aggregate/interval.h"
#include "daemon/history/history.h"
#include "daemon/history/snapshot.h"

namespace memprofd {

// Returns copies from a table, as OcamlSymbolizer does for known addresses.
class TableSymbolizer final : public Symbolizer {
 public:
  void add(std::uint64_t address, Location location) { table_[address] = {std::move(location)}; }
  std::vector<Location> look_up(std::uint64_t address, std::int32_t) override {
    return table_.at(address);
  }

 private:
  absl::flat_hash_map<std::uint64_t, std::vector<Location>> table_;
};

class SimulatedDay {
 public:
  static constexpr std::uint32_t kSites = 10'000;
  static constexpr int kFrames = 30;
  static constexpr int kModules = 100;
  static constexpr double kSamplesPerSecond = 2000;
  static constexpr double kRate = 1e-4;  // samples per word
  static constexpr std::uint64_t kSecondNs = 1'000'000'000;
  static constexpr std::uint64_t kBeginNs = 1'700'000'400 * kSecondNs;
  static constexpr std::uint64_t kHourNs = 3600 * kSecondNs;
  static constexpr std::uint64_t kDayNs = 24 * kHourNs;

  enum class Shares { kZipf, kEqual };

  explicit SimulatedDay(Shares shares, std::uint64_t early_step_ns = 60 * kSecondNs)
      : phases_{{{22 * kHourNs, early_step_ns},
                 {kDayNs - 600 * kSecondNs, 10 * kSecondNs},
                 {kDayNs, kSecondNs}}} {
    add_callstacks();
    add_classes(shares);
    run();
  }

  std::uint64_t now_ns() const { return now_ns_; }
  History& history() { return *history_; }
  std::uint64_t samples() const { return samples_; }
  // Frees the history; it cannot be used afterwards.
  void drop_history() { history_.reset(); }

  // A profile snapshot like the daemon's.
  ProfileSnapshotPtr snapshot() const {
    auto result = std::make_shared<ProfileSnapshot>();
    result->rows.reserve(by_class_.size());
    for (std::uint32_t id = 0; id < by_class_.size(); ++id) {
      if (by_class_[id].allocated.samples == 0) continue;
      const AllocClass& alloc_class = table_.get(ClassId(id));
      result->rows.push_back({ClassId(id), alloc_class,
                              callstacks_[alloc_class.callstack.value() - 1].get(), by_class_[id]});
    }
    result->info.pid = 1;
    result->info.comm = "simulated";
    result->info.sampling_rate = kRate;
    result->symbolizer = symbolizer_;
    result->attached_ns = kBeginNs;
    result->time_ns = now_ns_;
    result->history = history_->view(
        now_ns_, [this](const auto& use) { use(interval_, kRate); }, point());
    return result;
  }

 private:
  static constexpr std::uint64_t kMinorPeriodNs = 13'000'000;
  static constexpr std::uint64_t kMajorCycleNs = 20 * kSecondNs;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Site {
    double promoted;
    double mean_life_ns;
  };
  struct Class {
    ClassId id;
    std::uint32_t site;  // from 0
    double words;
    double samples_per_second;
    double none = 1;  // probability of no sample in a step
  };
  struct Death {
    std::uint32_t number;  // index of the class
    std::uint8_t code;
  };

  // xorshift64*
  struct Random {
    using result_type = std::uint64_t;
    static constexpr std::uint64_t min() { return 1; }
    static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }
    std::uint64_t operator()() {
      state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
      return state * 2685821657736338717ULL;
    }
    std::uint64_t state = 88172645463325252ULL;
  };
  static double fraction(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
  double uniform() { return fraction(random_()); }

  static std::uint64_t address(std::uint64_t depth, std::uint64_t node) {
    return 0x400000 + (depth << 32) + node * 16;
  }
  // Depth 0 is the innermost. Each depth has three quarters as many functions as the previous one,
  // down to a single main.
  void add_callstacks() {
    for (std::uint32_t site = 0; site < kSites; ++site) {
      auto callstack = std::make_shared<Callstack>();
      callstack->id = CallstackId(site + 1);
      std::uint64_t node = site;
      for (int depth = 0; depth < kFrames; ++depth) {
        const std::uint64_t at = address(static_cast<std::uint64_t>(depth), node);
        callstack->entries.push_back(at);
        symbolizer_->add(at, location(depth, node));
        node = node * 3 / 4;
      }
      callstack->n_frames = kFrames;
      callstacks_.push_back(std::move(callstack));
    }
  }
  static Location location(int depth, std::uint64_t node) {
    const std::uint64_t module = (node * 7 + static_cast<std::uint64_t>(depth)) % kModules;
    return {.function = absl::StrCat("Dune__exe__Module", module, ".function_", depth, "_", node),
            .file = absl::StrCat("src/application/module", module, ".ml"),
            .line = static_cast<std::uint32_t>(1 + node % 900),
            .start_column = 4,
            .end_column = 30,
            .library = "server.exe"};
  }

  void add_classes(Shares shares) {
    double sum = 0;
    for (std::uint32_t site = 0; site < kSites; ++site) {
      // Scatters the ranks, so that adjacent sites have very different ones.
      const double rank = 1 + (site * 7919ULL) % kSites;
      const double share = shares == Shares::kZipf ? 1 / rank : 1;
      sum += share;
      const SizeBucket size = SizeBucket::of(2 + site % 11);
      const ClassId id = table_.intern({.callstack = CallstackId(site + 1), .size = size}).id;
      classes_.push_back({id, site, size.middle_words(), share});
      sites_.push_back(life_of(site));
    }
    for (Class& one : classes_) one.samples_per_second *= kSamplesPerSecond / sum;
    by_class_.resize(classes_.back().id.value() + 1);
  }
  Site life_of(std::uint32_t site) {
    const double spread = uniform();
    const double second = static_cast<double>(kSecondNs);
    const std::uint32_t percent = site * 37 % 100;
    if (percent < 60) return {0.02, second};
    if (percent < 90) return {0.2, second * std::pow(60, spread)};
    if (percent < 99) return {0.7, 60 * second * std::pow(180, spread)};
    return {0.001, kNever};
  }

  // ---------------------------------------------------------------- time

  struct Phase {
    std::uint64_t end_ns;  // since the start of the day
    std::uint64_t step_ns;
  };
  // Number of the step that contains this time since the start of the day.
  std::size_t step_of(std::uint64_t ns) const {
    std::size_t before = 0;
    std::uint64_t begin = 0;
    for (const Phase& phase : phases_) {
      if (ns < phase.end_ns) return before + (ns - begin) / phase.step_ns;
      before += (phase.end_ns - begin) / phase.step_ns;
      begin = phase.end_ns;
    }
    return before;
  }

  void run() {
    pending_.resize(step_of(kDayNs));
    std::size_t step = 0;
    for (const Phase& phase : phases_) {
      const double seconds = static_cast<double>(phase.step_ns) / static_cast<double>(kSecondNs);
      for (Class& one : classes_) one.none = std::exp(-one.samples_per_second * seconds);
      while (now_ns_ < kBeginNs + phase.end_ns) {
        allocate(phase.step_ns, seconds);
        for (const Death& death : pending_[step]) die(classes_[death.number], death.code, 1);
        pending_[step++] = {};
        now_ns_ += phase.step_ns;
        close_window();
      }
    }
    // Leaves the last window unfinished.
    allocate(kSecondNs / 2, 0.5);
    now_ns_ += kSecondNs / 2;
  }

  void close_window() {
    history_->close_window(
        now_ns_, [this](const auto& use) { use(interval_, kRate); }, point());
    interval_.clear();
    history_->note_live(now_ns_, live_, static_cast<double>(samples_) / kRate - live_.words,
                        by_class_);
  }

  // The heap has 1 GiB; the part that is not live is free.
  HistoryPoint point() const {
    constexpr std::uint64_t kHeapBytes = 1 << 30;
    const auto used = std::min(kHeapBytes, static_cast<std::uint64_t>(live_.bytes()));
    return {.live = live_,
            .heap_words = kHeapBytes / 8,
            .memory = {.heap_used = used,
                       .heap_free = kHeapBytes - used,
                       .minor_heaps = 2 << 20,
                       .other_anonymous = 200 << 20,
                       .files = 9 << 20}};
  }

  // ---------------------------------------------------------------- samples

  void allocate(std::uint64_t step_ns, double seconds) {
    for (std::uint32_t number = 0; number < classes_.size(); ++number) {
      const Class& one = classes_[number];
      const std::uint32_t n = poisson(one, seconds);
      if (n == 0) continue;
      samples_ += n;
      live_.add(n, weight_of_word(kRate));
      by_class_[one.id.value()].add_allocated(n, weight_of_word(kRate), one.words + 1);
      by_class_[one.id.value()].add_live(n, weight_of_word(kRate), one.words + 1);
      interval_.cell(one.id).allocated += n;
      const double promoted = sites_[one.site].promoted;
      std::array<std::uint32_t, LifetimeHistogram::kBuckets> young{};
      for (std::uint32_t i = 0; i < n; ++i) {
        const std::uint64_t bits = random_();
        if (fraction(bits) < promoted) {
          live_on(number, step_ns);
        } else {
          ++young[young_deaths_[bits % young_deaths_.size()]];
        }
      }
      for (int bucket = 0; bucket < LifetimeHistogram::kBuckets; ++bucket) {
        if (young[bucket] > 0) die(one, DeathCounts::code_of(Heap::kMinor, bucket), young[bucket]);
      }
    }
  }

  std::uint32_t poisson(const Class& one, double seconds) {
    const double mean = one.samples_per_second * seconds;
    if (mean > 30) {
      return static_cast<std::uint32_t>(
          std::max(0.0, std::round(mean + std::sqrt(mean) * normal_(random_))));
    }
    std::uint32_t n = 0;
    for (double p = uniform(); p > one.none; p *= uniform()) ++n;
    return n;
  }

  // Schedules the death of a sample that is promoted in the step that starts now.
  void live_on(std::uint32_t number, std::uint64_t step_ns) {
    const Class& one = classes_[number];
    const Site& site = sites_[one.site];
    by_class_[one.id.value()].promoted.add(1, weight_of_word(kRate));
    ++interval_.cell(one.id).promoted;
    if (site.mean_life_ns == kNever) return;
    const double lifetime = -std::log(1 - uniform()) * site.mean_life_ns +
                            uniform() * static_cast<double>(kMajorCycleNs);
    const std::uint8_t code = DeathCounts::code_of(
        Heap::kMajor, LifetimeHistogram::bucket_of(static_cast<std::uint64_t>(lifetime)));
    const double birth = uniform() * static_cast<double>(step_ns);
    if (birth + lifetime < static_cast<double>(step_ns)) return die(one, code, 1);
    const double end = static_cast<double>(now_ns_ - kBeginNs) + birth + lifetime;
    if (end >= static_cast<double>(kDayNs)) return;
    pending_[step_of(static_cast<std::uint64_t>(end))].push_back({number, code});
  }

  void die(const Class& one, std::uint8_t code, std::uint32_t n) {
    Counters& counters = by_class_[one.id.value()];
    live_.subtract(n, weight_of_word(kRate));
    counters.remove_live(n, weight_of_word(kRate), one.words + 1);
    counters.deallocated[static_cast<int>(DeathCounts::Entry{code, n}.heap())].add(
        n, weight_of_word(kRate));
    const DeathCounts::Entry died{code, n, n / kRate, n / (kRate * kRate)};
    counters.deaths.add(died);
    interval_.cell(one.id).deaths.add(died);
  }

  // Equally likely lifetime buckets of blocks that die young.
  static std::vector<int> young_deaths() {
    std::vector<int> buckets(4096);
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      buckets[i] = LifetimeHistogram::bucket_of(kMinorPeriodNs * i / buckets.size());
    }
    return buckets;
  }

  const std::array<Phase, 3> phases_;
  Random random_;
  std::normal_distribution<double> normal_;
  std::shared_ptr<TableSymbolizer> symbolizer_ = std::make_shared<TableSymbolizer>();
  std::vector<std::shared_ptr<const Callstack>> callstacks_;  // by site
  std::vector<Site> sites_;
  std::vector<Class> classes_;
  const std::vector<int> young_deaths_ = young_deaths();
  std::vector<std::vector<Death>> pending_;  // by step
  std::uint64_t samples_ = 0;

  AllocClassTable table_;
  Estimate live_;
  std::vector<Counters> by_class_;
  Interval interval_;  // counts of the open window
  std::optional<History> history_{kBeginNs};
  std::uint64_t now_ns_ = kBeginNs;
};

}  // namespace memprofd
