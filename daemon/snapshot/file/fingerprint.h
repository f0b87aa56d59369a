// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 (Aumasson, Bernstein: SipHash: a fast short-input PRF, 2012) over whole words:
// without its key the hash reveals nothing about the input, and guesses cannot be tested.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "absl/status/statusor.h"

namespace memprofd {

class Fingerprint {
 public:
  using Key = std::array<std::uint64_t, 2>;

  explicit Fingerprint(const Key& key)
      : v0_(key[0] ^ 0x736f6d6570736575),
        v1_(key[1] ^ 0x646f72616e646f6d),
        v2_(key[0] ^ 0x6c7967656e657261),
        v3_(key[1] ^ 0x7465646279746573) {}

  void add(std::uint64_t word) {
    v3_ ^= word;
    round();
    round();
    v0_ ^= word;
    ++words_;
  }
  // Call it once.
  std::uint64_t end() {
    const std::uint64_t words = words_;
    add(words * 8 << 56);
    v2_ ^= 0xff;
    for (int i = 0; i < 4; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void round() {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_;
    v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_;
  std::uint64_t words_ = 0;
};

// Returns a key for one snapshot. It exists only in memory and disappears with its owner.
absl::StatusOr<Fingerprint::Key> random_key();

}  // namespace memprofd
