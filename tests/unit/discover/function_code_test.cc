// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/function_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

namespace memprofd {
namespace {

constexpr std::uint64_t kAddress = 0x1000;
constexpr std::uint64_t kTable = 0x2000;

// The entries of a jump table at kTable, to these places of the function.
ReadProgram table_to(std::vector<std::int32_t> places) {
  return [places](std::uint64_t address, std::span<std::byte> out) {
    const std::uint64_t index = (address - kTable) / 4;
    if (index >= places.size()) return false;
    const auto distance = static_cast<std::int32_t>(kAddress - kTable) + places[index];
    std::memcpy(out.data(), &distance, sizeof distance);
    return true;
  };
}

FunctionCode code_of(std::initializer_list<int> bytes, const ReadProgram& read = table_to({})) {
  std::vector<std::byte> code;
  for (const int b : bytes) code.push_back(static_cast<std::byte>(b));
  return read_function_code(code, kAddress, read);
}

TEST(FunctionCode, ItsFirstEmulatedInstructionIsProbed) {
  const FunctionCode code = code_of({0x48, 0x83, 0xec, 0x08,          // sub $8,%rsp
                                     0x48, 0x83, 0xf8, 0x01,          // cmp $1,%rax
                                     0x75, 0x05,                      // jne
                                     0xe8, 0,    0,    0,    0,       // call
                                     0x48, 0x83, 0xc4, 0x08, 0xc3});  // add $8,%rsp; ret
  EXPECT_EQ(code.why_uncounted, "");
  EXPECT_EQ(code.entry.at, 8u);
  EXPECT_TRUE(code.entry.is_cheap);
}

TEST(FunctionCode, OneWithoutSuchIsProbedAtItsBeginning) {
  const FunctionCode code = code_of({0x48, 0x83, 0xc0, 0x02, 0xc3});  // add $2,%rax; ret
  EXPECT_EQ(code.why_uncounted, "");
  EXPECT_EQ(code.entry.at, 0u);
  EXPECT_FALSE(code.entry.is_cheap);
}

TEST(FunctionCode, ALoopIsNotCounted) {
  const FunctionCode code = code_of({0x48, 0x83, 0xec, 0x08,  // sub $8,%rsp
                                     0x48, 0x83, 0xf8, 0x01,  // cmp, to which the jump leads
                                     0x74, 0x02,              // je
                                     0xeb, 0xf8,              // jmp
                                     0x48, 0x83, 0xc4, 0x08, 0xc3});  // add $8,%rsp; ret
  EXPECT_EQ(code.why_uncounted, "");
  EXPECT_EQ(code.entry.at, 0u) << "the je is passed each time round";
  EXPECT_FALSE(code.entry.is_cheap);
}

TEST(FunctionCode, ALoopOfAllOfItIsRefused) {
  const FunctionCode code = code_of({0x48, 0x83, 0xf8, 0x01, 0x74, 0x02, 0xeb, 0xf8, 0xc3});
  EXPECT_EQ(code.why_uncounted, "it loops back to its first instruction");
}

TEST(FunctionCode, AJumpTableIsFollowed) {
  const std::initializer_list<int> bytes = {
      0x48, 0x83, 0xec, 0x08,                    // 0: sub $8,%rsp
      0x48, 0x8d, 0x15, 0xf5, 0x0f, 0x00, 0x00,  // 4: lea 0x2000(%rip),%rdx
      0x48, 0x63, 0x04, 0x82,                    // 11: movslq (%rdx,%rax,4),%rax
      0x48, 0x01, 0xd0,                          // 15: add %rdx,%rax
      0xff, 0xe0,                                // 18: jmp *%rax
      0xe8, 0,    0,    0,    0,                 // 20: call
      0x48, 0x83, 0xc4, 0x08, 0xc3};             // 25
  EXPECT_EQ(code_of(bytes, table_to({20, 25, 9999})).why_uncounted, "");
  EXPECT_EQ(code_of(bytes, table_to({20, 0})).why_uncounted,
            "it loops back to its first instruction");
  EXPECT_EQ(code_of(bytes).why_uncounted, "a jump table of it is not understood");
}

std::vector<std::pair<std::uint64_t, bool>> exits_of(const FunctionCode& code) {
  std::vector<std::pair<std::uint64_t, bool>> exits;
  for (const FunctionExit& exit : code.exits) exits.emplace_back(exit.at, exit.is_tail_call);
  return exits;
}
using Exits = std::vector<std::pair<std::uint64_t, bool>>;

TEST(FunctionCode, ReturnsAndTailCallsEndACall) {
  const FunctionCode code = code_of({0x48, 0x83, 0xec, 0x18,                // 0: sub $24,%rsp
                                     0x75, 0x05,                            // 4: jne
                                     0x48, 0x83, 0xc4, 0x18, 0xc3,          // 6: add; ret
                                     0x48, 0x83, 0xc4, 0x18,                // 11: add
                                     0xe9, 0x00, 0x01, 0x00, 0x00,          // 15: jmp elsewhere
                                     0x48, 0x83, 0xc4, 0x18, 0xff, 0xe7});  // 20: jmp *%rdi
  EXPECT_EQ(code.why_untimed, "");
  EXPECT_EQ(exits_of(code), (Exits{{10, false}, {15, true}, {24, true}}));
  EXPECT_EQ(code.timed_entry.at, 4u);
  EXPECT_EQ(code.timed_entry.stack_words, 3u);
}

TEST(FunctionCode, AllocationsBeforeTheEntryAreReported) {
  const FunctionCode code = code_of({0x48, 0x83, 0xec, 0x08,        // 0: sub $8,%rsp
                                     0x49, 0x83, 0xef, 0x18,        // 4: sub $24,%r15
                                     0x4d, 0x3b, 0x3e,              // 8: cmp (%r14),%r15
                                     0x72, 0x05,                    // 11: jb
                                     0x48, 0x83, 0xc4, 0x08, 0xc3,  // 13: add; ret
                                     0xe8, 0x00, 0x01, 0x00, 0x00, 0xeb, 0xf4});
  EXPECT_EQ(code.timed_entry.at, 11u);
  EXPECT_EQ(code.timed_entry.young_words, 3u);
  const FunctionCode other = code_of({0x4d, 0x8b, 0x7e, 0x08,  // mov 8(%r14),%r15
                                      0x72, 0x00, 0xc3});
  EXPECT_EQ(other.entry.at, 4u);
  EXPECT_EQ(other.timed_entry.at, 0u) << "where it has another meaning";
}

TEST(FunctionCode, AnExceptionIsNotAnExit) {
  // mov %r14,%rsp; pop %r14; ret, and as in OCaml 5: mov 16(%r14),%rsp; pop 16(%r14); pop; jmp
  const FunctionCode code =
      code_of({0x75, 0x06, 0x4c, 0x89, 0xf4, 0x41, 0x5e, 0xc3,  //
               0x49, 0x8b, 0x66, 0x10, 0x41, 0x8f, 0x46, 0x10, 0x41, 0x5b, 0x41, 0xff, 0xe3, 0xc3});
  EXPECT_EQ(code.why_untimed, "");
  EXPECT_EQ(exits_of(code), (Exits{{21, false}}));
}

TEST(FunctionCode, AnotherStackForACallOfCIsLeftAgain) {
  const FunctionCode code = code_of({0x49, 0x89, 0xe5,              // mov %rsp,%r13
                                     0x49, 0x8b, 0x66, 0x48,        // mov 72(%r14),%rsp
                                     0xe8, 0x00, 0x01, 0x00, 0x00,  // call
                                     0x4c, 0x89, 0xec,              // mov %r13,%rsp
                                     0xc3});                        // 15: ret
  EXPECT_EQ(exits_of(code), (Exits{{15, false}}));
  EXPECT_EQ(code.entry.at, 7u);
  EXPECT_EQ(code.timed_entry.at, 0u) << "where the stack is another";
}

TEST(FunctionCode, OneJumpBeginsAndEndsAtOnePlace) {
  const FunctionCode code = code_of({0xe9, 0x00, 0x01, 0x00, 0x00});
  EXPECT_EQ(code.why_uncounted, "");
  EXPECT_EQ(code.why_untimed, "it is one jump");
  const FunctionCode longer = code_of({0x48, 0x89, 0xc3, 0xe9, 0x00, 0x01, 0x00, 0x00});
  EXPECT_EQ(longer.why_untimed, "");
  EXPECT_EQ(longer.entry.at, 3u);
  EXPECT_EQ(longer.timed_entry.at, 0u);
}

TEST(FunctionCode, ExitsWithoutEndAreNotKept) {
  const std::vector<std::byte> rets(100'000, std::byte{0xc3});
  const FunctionCode code = read_function_code(rets, kAddress, table_to({}));
  EXPECT_EQ(code.why_untimed, "it has too many exits");
  EXPECT_LE(code.exits.size(), 1000u);
}

TEST(FunctionCode, UnknownCodeIsRefused) {
  EXPECT_EQ(code_of({}).why_uncounted, "its code is not understood");
  EXPECT_EQ(code_of({0x06, 0xc3}).why_uncounted, "its code is not understood");
}

}  // namespace
}  // namespace memprofd
