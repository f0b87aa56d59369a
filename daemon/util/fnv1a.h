// SPDX-License-Identifier: Apache-2.0
// FNV-1a, 64 bits. The result is the same in every process, unlike that of absl's hashes. Must not
// hash untrusted keys of a table.
#pragma once

#include <cstdint>
#include <string_view>

namespace memprofd {

class Fnv1a {
 public:
  // Separates consecutive texts, so that "ab", "c" and "a", "bc" differ.
  Fnv1a& add(std::string_view text) {
    for (const char c : text) mix(static_cast<unsigned char>(c));
    mix(0xff);  // occurs in no UTF-8 text
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
