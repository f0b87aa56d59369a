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

}  // namespace
}  // namespace memprofd
