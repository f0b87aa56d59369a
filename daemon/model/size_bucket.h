// SPDX-License-Identifier: Apache-2.0
// Block sizes on a scale. A block has at least one word; bucket 0 is for unknown sizes.
//
//   1 to 64 words        one bucket each
//   up to 511            16 buckets per octave: the middle is within 3.2 % of each size
//   512 to 2,047         one bucket each
//   2,048 to 2^40 - 1    1,024 buckets per octave: within 0.05 %
//   more                 16 buckets per octave
//   of_octave()          one bucket per octave, for classes that no longer distinguish sizes
//
// From 512 words to 2^40 a size is fine: precise enough for a block to count with its own size.
// Sizes that do not belong to a block use the coarse scale, which has 16 buckets per octave in this
// range too.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace memprofd {

// Size in words without the header.
class SizeBucket {
 public:
  static constexpr std::uint64_t kExactWords = 64;
  static constexpr std::uint64_t kFineWords = 512;
  // Sizes of 2^48 words and more share the last bucket.
  static constexpr int kLargestOctave = 48;

  constexpr SizeBucket() = default;
  // An index that does not exist is an unknown size.
  static constexpr SizeBucket from_index(std::uint16_t index) {
    return index <= kLastOctave ? SizeBucket(index) : SizeBucket();
  }
  static constexpr SizeBucket of(std::uint64_t words) {
    const int octave = std::bit_width(words) - 1;
    if (words < kFineWords || octave >= kFineOctaves) return coarse_of(words);
    if (octave <= kFineBits) return fine_at(words - kFineWords);
    return fine_at(kFineEach + static_cast<std::uint64_t>(octave - kFineBits - 1) * kFineSteps +
                   ((words >> (octave - kFineBits)) & (kFineSteps - 1)));
  }
  static constexpr SizeBucket coarse_of(std::uint64_t words) {
    if (words <= kExactWords) return SizeBucket(static_cast<std::uint16_t>(words));
    const int octave = std::bit_width(words) - 1;
    if (octave >= kLargestOctave) return SizeBucket(kLastIndex);
    const std::uint64_t sixteenth = (words >> (octave - 4)) & 15;
    return SizeBucket(static_cast<std::uint16_t>(kExactWords + 1 + (octave - 6) * 16 +
                                                 static_cast<int>(sixteenth)));
  }

  // The range of sizes in the bucket, both inclusive.
  constexpr std::uint64_t smallest_words() const {
    if (index_ <= kExactWords) return index_;
    if (is_octave()) return std::uint64_t{1} << (index_ - kFirstOctave);
    if (fine()) return smallest_fine_words(index_ - kFirstFine);
    const unsigned above = index_ - kExactWords - 1;
    const unsigned octave = 6 + above / 16;
    const std::uint64_t low = (16ULL + above % 16) << (octave - 4);
    return low == kExactWords ? kExactWords + 1 : low;
  }
  constexpr std::uint64_t largest_words() const {
    if (index_ <= kExactWords) return index_;
    if (is_octave()) return 2 * smallest_words() - 1;
    if (fine()) return smallest_fine_words(index_ - kFirstFine + 1) - 1;
    return from_index(static_cast<std::uint16_t>(index_ + 1)).smallest_words() - 1;
  }
  constexpr bool is_known() const { return index_ != 0; }
  constexpr bool fine() const { return index_ >= kFirstFine && !is_octave(); }
  // The bucket of all sizes of its octave; the size itself where that is the only one.
  constexpr SizeBucket of_octave() const {
    const std::uint64_t words = smallest_words();
    if (words < 2) return *this;
    return SizeBucket(static_cast<std::uint16_t>(kFirstOctave + std::bit_width(words) - 1));
  }
  // The size that represents all sizes in the bucket. Infinity for an unknown size: words then do
  // not correspond to a number of blocks, so that no blocks are counted for them.
  constexpr double middle_words() const {
    if (!is_known()) return std::numeric_limits<double>::infinity();
    return (static_cast<double>(smallest_words()) + static_cast<double>(largest_words())) / 2;
  }
  constexpr std::uint16_t index() const { return index_; }
  friend constexpr auto operator<=>(const SizeBucket&, const SizeBucket&) = default;

 private:
  static constexpr std::uint16_t kLastIndex = kExactWords + 1 + (kLargestOctave - 6) * 16;
  static constexpr std::uint16_t kFirstFine = kLastIndex + 1;
  static constexpr int kFineOctaves = 40;
  static constexpr int kFineBits = 10;
  static constexpr std::uint64_t kFineSteps = 1 << kFineBits;              // per octave
  static constexpr std::uint64_t kFineEach = 2 * kFineSteps - kFineWords;  // before the steps
  static constexpr std::uint64_t kFirstOctave =
      kFirstFine + kFineEach + (kFineOctaves - kFineBits) * kFineSteps;
  static constexpr std::uint64_t kLastOctave = kFirstOctave + kLargestOctave;
  static_assert(kLastOctave < 1 << 16);

  constexpr bool is_octave() const { return index_ >= kFirstOctave; }
  static constexpr SizeBucket fine_at(std::uint64_t place) {
    return SizeBucket(static_cast<std::uint16_t>(kFirstFine + place));
  }
  static constexpr std::uint64_t smallest_fine_words(std::uint64_t place) {
    if (place < kFineEach) return kFineWords + place;
    const std::uint64_t above = place - kFineEach;
    return (kFineSteps + above % kFineSteps) << (1 + above / kFineSteps);
  }
  constexpr explicit SizeBucket(std::uint16_t index) : index_(index) {}
  std::uint16_t index_ = 0;
};

}  // namespace memprofd
