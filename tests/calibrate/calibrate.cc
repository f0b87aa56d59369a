// SPDX-License-Identifier: Apache-2.0
// Writes the tables of docs/internals/accuracy.md (make calibrate). Arguments: runs of each kind,
// first seed (with a third one the last table is left out).
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/calibrate/calibration.h"

namespace memprofd {
namespace {

struct Kind {
  const char* title;
  BooksOptions options;
};

const Kind kKinds[] = {
    {"One rate of 1e-3", {.rate = 1e-3}},
    {"A rate of 0.2", {.rate = 0.2, .seconds = 40}},
    {"A rate that changes every 15 s: 1e-3, 3e-4, 2e-3, 1e-4",
     {.rate = 1e-3, .next_rates = {3e-4, 2e-3, 1e-4}}},
    {"A budget that chooses a rate every 10 s, for 100 samples a second",
     {.rate = 1e-3, .rate_seconds = 10, .samples_a_second = 100}},
    {"Losses, after which live restarts, every 20 s on average",
     {.rate = 1e-3, .seconds_to_loss = 20}},
    {"Observe mode, at another weight each second: 100 to 10,000 words",
     {.rate = 1e-3, .observe = true}},
    {"Native heap, one sample in 8 KiB", {.rate = 8.0 / 8192, .native_interval = 8192}},
    {"Native heap, one sample in 512 KiB", {.rate = 8.0 / 524288, .native_interval = 524288}},
};

void print(const Kind& kind, int runs, unsigned seed) {
  Calibration calibration;
  for (int run = 0; run < runs; ++run) {
    BooksOptions options = kind.options;
    options.seed = seed + static_cast<unsigned>(run);
    calibration.run(options);
  }
  std::printf("### %s\n\n", kind.title);
  std::printf(
      "| quantity | answers | bias | in the interval | below, above | below 10 samples | 10 to 99 "
      "| "
      "100 and more |\n");
  std::printf("|---|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const std::string& name : Calibration::quantities()) {
    const Calibrated& of = calibration.of(name);
    if (of.answers() == 0) continue;
    std::printf("| %s | %ld | %+.2f %% ± %.2f | %.1f %% | %.1f, %.1f", name.c_str(), of.answers(),
                100 * of.bias(), 100 * of.bias_stderr(), 100 * of.coverage(), 100 * of.below(),
                100 * of.above());
    for (int band = 0; band < Calibrated::kBands; ++band) {
      if (of.coverage(band) < 0) {
        std::printf(" |");
      } else {
        std::printf(" | %.1f", 100 * of.coverage(band));
      }
    }
    std::printf(" |\n");
  }
  std::printf("\n");
}

// The worst case for the highest of many moments: 100 samples are live all the time, and others
// each second, so that there are as many independent estimates as seconds.
double peak_bias(int seconds, unsigned seed) {
  constexpr double kMean = 100;
  std::mt19937_64 random(seed);
  std::poisson_distribution<std::uint32_t> samples(kMean);
  Recording recording;
  for (int second = 0; second < seconds; ++second) {
    const auto id = static_cast<std::uint64_t>(second) + 1;
    if (id > 1) recording.die(id - 1);
    recording.alloc(id, 5, samples(random));
    recording.advance(kSecond);
  }
  return static_cast<double>(recording.history().view().peak->live.samples) / kMean - 1;
}

void print_peaks(unsigned seed) {
  std::printf("### The peak of a program whose live memory is constant\n\n");
  std::printf(
      "Live memory has 100 samples, all replaced each second: one moment has an error of 10 "
      "%%.\n\n");
  std::printf("| after | runs | bias |\n|---|---:|---:|\n");
  const auto print = [&](const char* after, int seconds, int runs) {
    double sum = 0, squares = 0;
    for (int run = 0; run < runs; ++run) {
      const double bias = 100 * peak_bias(seconds, seed + static_cast<unsigned>(run));
      sum += bias;
      squares += bias * bias;
    }
    const double mean = sum / runs;
    std::printf("| %s | %d | %+.1f %% ± %.1f |\n", after, runs, mean,
                std::sqrt(std::max(0.0, squares / runs - mean * mean) / runs));
  };
  print("10 min", 600, 100);
  print("2 h", 7'200, 50);
  print("24 h", 86'400, 20);
}

}  // namespace
}  // namespace memprofd

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 400;
  const unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  for (const auto& kind : memprofd::kKinds) memprofd::print(kind, runs, seed);
  if (argc <= 3) memprofd::print_peaks(seed);
}
