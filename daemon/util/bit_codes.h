// SPDX-License-Identifier: Apache-2.0
// Small whole numbers in few bits: Elias gamma codes, lowest bit first.
//
// A number of n bits takes 2n - 1 bits: n - 1 zeros, a one, and the bits below its highest one. 1
// is "1", 2 is "010", 3 is "011", 6 is "001" "01" (read from the left, the lowest of the bits below
// first).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace memprofd {

class BitWriter {
 public:
  // A reader may touch this many bytes beyond the last bit.
  static constexpr std::size_t kPadding = 16;

  // Requires 1 <= value < 2^57.
  void put_gamma(std::uint64_t value) {
    const int low_bits = std::bit_width(value) - 1;
    put(std::uint64_t{1} << low_bits, low_bits + 1);
    put(value & ((std::uint64_t{1} << low_bits) - 1), low_bits);
  }
  std::uint64_t position() const { return bits_; }
  // The written bytes, including the padding.
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  // Ends writing: put_gamma() must not be called after this.
  void finish() {
    if (bits_ > 0) bytes_.resize((bits_ + 7) / 8 + kPadding);
    bytes_.shrink_to_fit();
  }

 private:
  // Requires count <= 57 and no bit of value above them.
  void put(std::uint64_t value, int count) {
    if (bits_ / 8 + sizeof value > bytes_.size()) bytes_.resize(bytes_.size() * 3 / 2 + kPadding);
    std::uint64_t word;
    std::memcpy(&word, bytes_.data() + bits_ / 8, sizeof word);
    word |= value << bits_ % 8;
    std::memcpy(bytes_.data() + bits_ / 8, &word, sizeof word);
    bits_ += static_cast<std::uint64_t>(count);
  }

  std::vector<std::uint8_t> bytes_;
  std::uint64_t bits_ = 0;
};

// Reads the output of a finished BitWriter; the bytes must outlive it.
class BitReader {
 public:
  BitReader(const std::uint8_t* bytes, std::uint64_t position)
      : bytes_(bytes), position_(position) {}

  std::uint64_t gamma() {
    const std::uint64_t bits = peek();
    const int low_bits = std::countr_zero(bits | std::uint64_t{1} << 56);
    const std::uint64_t mask = (std::uint64_t{1} << low_bits) - 1;
    position_ += static_cast<std::uint64_t>(low_bits) + 1;
    const std::uint64_t rest = low_bits < 28 ? bits >> (low_bits + 1) : peek();
    position_ += static_cast<std::uint64_t>(low_bits);
    return mask + 1 + (rest & mask);
  }
  // Calls gamma() twice, in one step if both values are below 2^14, as most are.
  std::pair<std::uint64_t, std::uint64_t> two_gammas() {
    constexpr std::uint64_t kShort = (1 << 14) - 1;  // zeros, a one: two codes take 54 bits
    const std::uint64_t bits = peek();
    if ((bits & kShort) == 0) return gamma_and_gamma();
    const int first = std::countr_zero(bits);
    const std::uint64_t behind = bits >> (2 * first + 1);
    if ((behind & kShort) == 0) return gamma_and_gamma();
    const int second = std::countr_zero(behind);
    position_ += static_cast<std::uint64_t>(2 * first + 2 * second + 2);
    return {value_of(bits, first), value_of(behind, second)};
  }

 private:
  // Decodes the value at the lowest bit.
  static std::uint64_t value_of(std::uint64_t bits, int low_bits) {
    const std::uint64_t mask = (std::uint64_t{1} << low_bits) - 1;
    return mask + 1 + (bits >> (low_bits + 1) & mask);
  }
  std::pair<std::uint64_t, std::uint64_t> gamma_and_gamma() {
    const std::uint64_t first = gamma();
    return {first, gamma()};
  }
  // Returns at least 57 valid bits.
  std::uint64_t peek() const {
    std::uint64_t word;
    std::memcpy(&word, bytes_ + position_ / 8, sizeof word);
    return word >> position_ % 8;
  }

  const std::uint8_t* bytes_;
  std::uint64_t position_;  // in bits
};

}  // namespace memprofd
