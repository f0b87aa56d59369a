// SPDX-License-Identifier: Apache-2.0
// How the fuzz targets of tests/fuzz are driven: by mutations that are the same in every build, or,
// with MEMPROFD_FUZZ_SECONDS (make fuzz), by others for as long, from MEMPROFD_FUZZ_SEED on.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/kit/full_length.h"

namespace memprofd {

// The seed of a fuzz test that has this one else.
inline std::mt19937::result_type fuzz_seed(std::mt19937::result_type usual) {
  const char* said = std::getenv("MEMPROFD_FUZZ_SEED");
  return said == nullptr ? usual
                         : static_cast<std::mt19937::result_type>(std::strtoul(said, nullptr, 10));
}

class FuzzRounds {
 public:
  FuzzRounds(int always, int at_full_length) : left_(rounds_of(always, at_full_length)) {
    const char* seconds = std::getenv("MEMPROFD_FUZZ_SECONDS");
    if (seconds == nullptr) return;
    is_timed_ = true;
    until_ = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(seconds));
  }
  bool next() { return is_timed_ ? std::chrono::steady_clock::now() < until_ : left_-- > 0; }

 private:
  int left_;
  bool is_timed_ = false;
  std::chrono::steady_clock::time_point until_;
};

// Some changes, of bits, bytes, numbers, pieces, behind the first `fixed` bytes.
inline void mutate(std::string& input, std::mt19937& random, std::size_t fixed = 0) {
  static constexpr std::uint8_t kTelling[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
  for (std::size_t n = 1 + random() % 4; n > 0 && input.size() > fixed; --n) {
    const std::size_t at = fixed + random() % (input.size() - fixed);
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

// Calls target(data, size) with mutations of the seeds.
template <typename Target>
void fuzz(const std::vector<std::string>& seeds, FuzzRounds rounds, Target target,
          std::size_t fixed = 0) {
  std::mt19937 random(fuzz_seed(20260101));
  while (rounds.next()) {
    std::string input = seeds[random() % seeds.size()];
    mutate(input, random, fixed);
    target(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace memprofd
