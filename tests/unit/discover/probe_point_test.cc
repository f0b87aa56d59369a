// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/probe_point.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace memprofd {
namespace {

ProbePoint choose(std::initializer_list<int> bytes) {
  std::vector<std::byte> code;
  for (const int b : bytes) code.push_back(static_cast<std::byte>(b));
  return choose_probe_point(code, 0x1000, 0x555500001000);
}

TEST(ProbePoint, CheapInstructionsAtTheEntry) {
  const struct {
    std::initializer_list<int> code;
    const char* name;
  } cases[] = {{{0x90}, "nop"},
               {{0x50}, "push"},
               {{0x57}, "push"},
               {{0x41, 0x57}, "push"},
               {{0xeb, 0x10}, "jmp"},
               {{0xe9, 1, 2, 3, 4}, "jmp"},
               {{0xe8, 1, 2, 3, 4}, "call"}};
  for (const auto& c : cases) {
    const ProbePoint point = choose(c.code);
    EXPECT_TRUE(point.cheap) << c.name;
    EXPECT_EQ(point.instruction, c.name);
    EXPECT_EQ(point.file_offset, 0x1000u);
    EXPECT_EQ(point.address, 0x555500001000u);
  }
}

TEST(ProbePoint, SteppedInstructionsAreNotCheap) {
  const struct {
    std::initializer_list<int> code;
    const char* name;
  } cases[] = {{{0x48, 0x83, 0xec, 0x08}, "sub"},
               {{0x48, 0x89, 0xe5}, "mov"},
               {{0x31, 0xc0}, "xor"},
               {{0x48, 0x85, 0xd2}, "test"},
               {{0x64, 0x48, 0x8b, 0x04, 0x25}, "mov"},
               {{0x48, 0x8d, 0x05}, "lea"},
               {{0x5b}, "pop"},
               {{0xc3}, "ret"},
               {{0xcc}, "int3"},
               {{0x41, 0x8f, 0x86}, "other"}};
  for (const auto& c : cases) {
    const ProbePoint point = choose(c.code);
    EXPECT_FALSE(point.cheap) << c.name;
    EXPECT_EQ(point.instruction, c.name);
  }
}

TEST(ProbePoint, FiveByteNopIsNotCheap) {
  const ProbePoint point = choose({0x0f, 0x1f, 0x44, 0x00, 0x00});
  EXPECT_FALSE(point.cheap);
  EXPECT_EQ(point.instruction, "long nop");
}

TEST(ProbePoint, SkipsEndbr64) {
  const ProbePoint point = choose({0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x56});
  EXPECT_TRUE(point.cheap);
  EXPECT_EQ(point.instruction, "push");
  EXPECT_EQ(point.file_offset, 0x1004u);
  EXPECT_EQ(point.address, 0x555500001004u);
}

TEST(ProbePoint, NothingToReadIsNotCheap) {
  EXPECT_FALSE(choose({}).cheap);
  EXPECT_EQ(choose({}).instruction, "unreadable");
  EXPECT_FALSE(choose({0x41}).cheap);
}

std::optional<ProbePoint> tail_jump(std::initializer_list<int> bytes) {
  std::vector<std::byte> code;
  for (const int b : bytes) code.push_back(static_cast<std::byte>(b));
  return choose_tail_jump(code, 0x1000, 0x555500001000);
}

// caml_get_callstack of Debian's OCaml 5.3.0 and 5.4.1.
TEST(ProbePoint, TheJumpAtTheEndOfOcaml5sCaptures) {
  const auto in53 = tail_jump({0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x05, 0xf5, 0x1e, 0x03, 0x00,
                               0x49, 0x89, 0xd0, 0x48, 0x89, 0xca, 0x48, 0x89, 0xf1, 0x48, 0x89,
                               0xfe, 0x64, 0x48, 0x8b, 0x00, 0x48, 0x8b, 0x40, 0x28, 0x48, 0x89,
                               0xc7, 0xe9, 0x59, 0xfb, 0xff, 0xff, 0x66, 0x0f, 0x1f});
  ASSERT_TRUE(in53.has_value());
  EXPECT_EQ(in53->file_offset, 0x1022u);
  EXPECT_EQ(in53->address, 0x555500001022u);
  EXPECT_TRUE(in53->cheap);
  EXPECT_EQ(in53->instruction, "jmp");
  const auto in54 = tail_jump({0xf3, 0x0f, 0x1e, 0xfa, 0x49, 0x89, 0xd0, 0x48, 0x89, 0xca, 0x48,
                               0x8b, 0x0d, 0xbf, 0x2f, 0x03, 0x00, 0x48, 0x89, 0xf8, 0x64, 0x48,
                               0x8b, 0x09, 0x48, 0x8b, 0x79, 0x28, 0x48, 0x89, 0xf1, 0x48, 0x89,
                               0xc6, 0xe9, 0x59, 0xfb, 0xff, 0xff, 0x66, 0x0f, 0x1f});
  ASSERT_TRUE(in54.has_value());
  EXPECT_EQ(in54->file_offset, 0x1022u);
}

TEST(ProbePoint, CodeThatIsNotUnderstoodHasNoTailJump) {
  EXPECT_FALSE(tail_jump({}).has_value());
  EXPECT_FALSE(tail_jump({0xf3, 0x0f}).has_value());
  EXPECT_FALSE(tail_jump({0x48, 0x89}).has_value()) << "ends in an instruction";
  EXPECT_FALSE(tail_jump({0x48, 0x89, 0xd0}).has_value()) << "ends before the jump";
  EXPECT_FALSE(tail_jump({0x55, 0xe9, 1, 2, 3, 4}).has_value()) << "a push: arguments move";
  EXPECT_FALSE(tail_jump({0xe8, 1, 2, 3, 4, 0xe9, 1, 2, 3, 4}).has_value()) << "a call";
  EXPECT_TRUE(tail_jump({0x48, 0x8b, 0x84, 0x24, 1, 2, 3, 4, 0xe9, 1, 2, 3, 4}).has_value());
  EXPECT_TRUE(
      tail_jump({0x64, 0x48, 0x8b, 0x04, 0x25, 0xe0, 0xff, 0xff, 0xff, 0xeb, 1}).has_value());
}

}  // namespace
}  // namespace memprofd
