// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace memprofd::ctf {
namespace {

struct Vint {
  std::uint64_t value;
  std::size_t bytes;
  std::uint8_t first;
};

TEST(CtfBytes, VintsHaveTheFormThatEveryReaderTakes) {
  constexpr std::uint64_t k1 = 1;
  for (const Vint& vint :
       {Vint{0, 1, 0}, Vint{252, 1, 252}, Vint{253, 3, 253}, Vint{65535, 3, 253},
        Vint{65536, 5, 254}, Vint{(k1 << 31) - 1, 5, 254}, Vint{k1 << 31, 9, 255},
        Vint{k1 << 32, 9, 255}, Vint{(k1 << 63) - 1, 9, 255}}) {
    std::array<std::byte, 16> buffer{};
    ByteWriter out(buffer);
    out.put_vint(vint.value);
    EXPECT_EQ(out.size(), vint.bytes) << vint.value;
    EXPECT_EQ(buffer[0], std::byte{vint.first}) << vint.value;
    ByteReader in(out.bytes());
    EXPECT_EQ(in.get_count(), vint.value);
    EXPECT_TRUE(in.ok() && in.empty());
  }
}

TEST(CtfBytes, A32BitVintHasASign) {
  constexpr std::array<std::uint8_t, 5> bytes = {254, 0xFE, 0xFF, 0xFF, 0xFF};
  ByteReader in(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(in.get_vint(), -2);
  ByteReader as_count(std::as_bytes(std::span(bytes)));
  as_count.get_count();
  EXPECT_FALSE(as_count.ok()) << "a count cannot be negative";
}

TEST(CtfBytes, ReadsNothingBehindTheEnd) {
  constexpr std::array<std::uint8_t, 3> bytes = {255, 1, 2};
  ByteReader in(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(in.get_vint(), 0);
  EXPECT_FALSE(in.ok());
  EXPECT_TRUE(in.empty());
  ByteReader text(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(text.get_string(10), "") << "no NUL";
  EXPECT_FALSE(text.ok());
}

TEST(CtfBytes, StringsHaveALimit) {
  constexpr std::array<char, 6> bytes = {'a', 'b', 'c', 0, 'd', 0};
  ByteReader in(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(in.get_string(3), "abc");
  EXPECT_EQ(in.get_string(3), "d");
  EXPECT_TRUE(in.ok() && in.empty());
  ByteReader limited(std::as_bytes(std::span(bytes)));
  limited.get_string(2);
  EXPECT_FALSE(limited.ok());
}

}  // namespace
}  // namespace memprofd::ctf
