// SPDX-License-Identifier: Apache-2.0
// Guesses the target of a pointer: close to the previous block in the file, or close to the target
// of the same field in the last block of that shape. Blocks that were allocated one after the other
// are neighbours, but OCaml 5 places other sizes elsewhere. The guess that was better recently is
// used. Writer and reader make the same guesses.
#pragma once

#include <cstdint>

namespace memprofd {

class PointerGuess {
 public:
  // The place from which the distance in the file counts. before: the place before the pointer.
  std::uint64_t from(std::uint64_t before) const { return trust_ > 0 ? last_ : before; }

  void learn(std::uint64_t before, std::uint64_t place) {
    if (distance(last_, place) < distance(before, place)) {
      if (trust_ < kMax) ++trust_;
    } else if (trust_ > -kMax) {
      --trust_;
    }
    last_ = place;
  }

 private:
  static constexpr int kMax = 4;

  static std::uint64_t distance(std::uint64_t from, std::uint64_t to) {
    return from < to ? to - from : from - to;
  }

  std::uint64_t last_ = 0;
  int trust_ = 0;
};

// Maximum number of guesses. Each pointer of each shape has one as long as they suffice.
inline constexpr std::uint32_t kMaxGuesses = 1u << 20;

}  // namespace memprofd
