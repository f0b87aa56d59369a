// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/argument_entry.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace memprofd {
namespace {

constexpr std::uint64_t kAddress = 0x1000;

std::optional<ArgumentEntry> entry_of(std::initializer_list<int> bytes,
                                      const WantedArguments& wanted) {
  std::vector<std::byte> code;
  for (const int b : bytes) code.push_back(static_cast<std::byte>(b));
  const ReadProgram no_tables = [](std::uint64_t, std::span<std::byte>) { return false; };
  return find_argument_entry(code, kAddress, no_tables, wanted);
}

const WantedArguments kBytes{{kRdi}, true};

TEST(ArgumentEntry, APushAtTheBeginning) {
  const auto entry = entry_of({0x41, 0x54, 0x41, 0x5c, 0xc3}, kBytes);  // push r12; pop r12; ret
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->at, 0u);
  EXPECT_TRUE(entry->is_cheap);
}

// free of glibc 2.36.
TEST(ArgumentEntry, AJumpBehindATest) {
  const auto entry = entry_of({0x48, 0x85, 0xff,  // test %rdi,%rdi
                               0x74, 0x01,        // je
                               0x55, 0xc3},       // push %rbp; ret
                              kBytes);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->at, 3u);
  EXPECT_TRUE(entry->is_cheap);
}

// calloc of glibc 2.42: rdx is no argument of it, though it is one of reallocarray.
TEST(ArgumentEntry, AProductOfTwoArguments) {
  const auto code = {0x48, 0x89, 0xf8,  // mov %rdi,%rax
                     0x48, 0xf7, 0xe6,  // mul %rsi
                     0x70, 0x01,        // jo
                     0xc3, 0xc3};
  const auto of_two = entry_of(code, {{kRdi, kRsi}, true});
  ASSERT_TRUE(of_two);
  EXPECT_EQ(of_two->at, 6u);
  const auto of_three = entry_of(code, {{kRdi, kRsi, kRdx}, true});
  ASSERT_TRUE(of_three);
  EXPECT_EQ(of_three->at, 0u) << "rdx is gone by then";
  EXPECT_FALSE(of_three->is_cheap);
}

TEST(ArgumentEntry, AnArgumentIsGone) {
  const auto entry = entry_of({0x48, 0x89, 0xf7,  // mov %rsi,%rdi
                               0x55, 0x5d, 0xc3},
                              kBytes);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->at, 0u);
}

TEST(ArgumentEntry, TheReturnAddressIsNotWhereRspIsAnyMore) {
  const auto code = {0x48, 0x83, 0xec, 0x18,  // sub $0x18,%rsp
                     0x48, 0x85, 0xff,        // test %rdi,%rdi
                     0x74, 0x00,              // je
                     0xc3};
  const auto returning = entry_of(code, kBytes);
  ASSERT_TRUE(returning);
  EXPECT_EQ(returning->at, 0u);
  const auto not_returning = entry_of(code, {{kRdi}, false});
  ASSERT_TRUE(not_returning);
  EXPECT_EQ(not_returning->at, 7u);
}

TEST(ArgumentEntry, UnknownInstructionsMayHaveWrittenAnything) {
  const auto entry = entry_of({0x48, 0x0f, 0xbe, 0xff,  // movsbq %dil,%rdi
                               0x55, 0x5d, 0xc3},
                              kBytes);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->at, 0u);
}

TEST(ArgumentEntry, ALoopToTheBeginningIsRefused) {
  EXPECT_FALSE(entry_of({0x55, 0x5d, 0xeb, 0xfc}, kBytes));  // push; pop; jmp to the push
}

TEST(ArgumentEntry, CodeThatIsNotUnderstoodIsRefused) {
  EXPECT_FALSE(entry_of({0x62, 0x62, 0x62}, kBytes));
}

}  // namespace
}  // namespace memprofd
