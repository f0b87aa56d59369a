// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/probes.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBase = 0x1000;
// push %rbp; int3; call; nop
const std::vector<std::uint8_t> kCode{0x55, 0xcc, 0xe8, 0x90};

bool shows_none(const std::vector<std::uint64_t>& addresses) {
  FakeMemory memory(kBase);
  for (const std::uint8_t byte : kCode) memory.put(byte);
  return shows_no_probe(memory, addresses);
}

#ifdef __x86_64__
TEST(Breakpoints, CodeAsItWasShowsNone) {
  EXPECT_TRUE(shows_none({kBase}));
  EXPECT_TRUE(shows_none({kBase, kBase + 3}));
}
#endif

TEST(Breakpoints, OneAmongManyIsSeen) {
  EXPECT_FALSE(shows_none({kBase + 1}));
  EXPECT_FALSE(shows_none({kBase, kBase + 1, kBase + 3}));
}

TEST(Breakpoints, WhereTheKernelPutACallInsteadIsOne) { EXPECT_FALSE(shows_none({kBase + 2})); }

TEST(Breakpoints, UnreadableCodeIsNotKnownToHaveNone) {
  EXPECT_FALSE(shows_none({kBase, 0xdead0000}));
}

TEST(Breakpoints, NothingIsKnownWithoutAnInspection) { EXPECT_FALSE(shows_none({})); }

}  // namespace
}  // namespace memprofd
