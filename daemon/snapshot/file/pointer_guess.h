// SPDX-License-Identifier: Apache-2.0
// Where a pointer of a block probably leads: close to what comes before it in the file, or close to
// where the same field of the last block of that shape led. Blocks that were made one after the
// other lie one behind the other, but in OCaml 5 those of another size lie elsewhere. What would
// have been better lately is taken. Who writes and who reads guess alike.
#pragma once

#include <cstdint>

namespace memprofd {

class PointerGuess {
 public:
  // The place that the distance in the file counts from. before: what comes before the pointer.
  std::uint64_t from(std::uint64_t before) const { return trust_ > 0 ? last_ : before; }

  void learn(std::uint64_t before, std::uint64_t place) {
    if (distance(last_, place) < distance(before, place)) {
      if (trust_ < kMost) ++trust_;
    } else if (trust_ > -kMost) {
      --trust_;
    }
    last_ = place;
  }

 private:
  static constexpr int kMost = 4;

  static std::uint64_t distance(std::uint64_t from, std::uint64_t to) {
    return from < to ? to - from : from - to;
  }

  std::uint64_t last_ = 0;
  int trust_ = 0;
};

// There is one for each pointer of each shape, as long as these suffice.
inline constexpr std::uint32_t kMostGuesses = 1u << 20;

}  // namespace memprofd
