// SPDX-License-Identifier: Apache-2.0
// FNV-1a, 64 bits: the same in every process, unlike absl's hashes. Not for untrusted keys of a
// table.
#pragma once

#include <cstdint>
#include <string_view>

namespace memprofd {

class Fnv1a {
 public:
  // Texts that are added one after the other do not run together.
  Fnv1a& add(std::string_view text) {
    for (const char c : text) mix(static_cast<unsigned char>(c));
    mix(0xff);  // in no UTF-8
    return *this;
  }
  Fnv1a& add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) mix(static_cast<unsigned char>(number >> (8 * i)));
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  void mix(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3; }

  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace memprofd
