// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/stack_room.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace memprofd {
namespace {

constexpr std::uint64_t kRoom = 64u << 10;

std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

bool has_room(std::uint64_t stack_pointer, const AddressRange& main_stack = {}) {
  return has_stack_room(::getpid(), main_stack, stack_pointer, kRoom);
}

TEST(StackRoom, UpToTheGuardPage) {
  constexpr std::size_t kGuard = 4096, kBytes = 256u << 10;
  auto* stack = static_cast<char*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(stack, MAP_FAILED);
  ASSERT_EQ(::mprotect(stack, kGuard, PROT_NONE), 0);
  EXPECT_TRUE(has_room(address(stack + kBytes - 8)));
  EXPECT_TRUE(has_room(address(stack + kGuard + kRoom)));
  EXPECT_FALSE(has_room(address(stack + kGuard + kRoom - 8)));
  ::munmap(stack, kBytes);
  EXPECT_FALSE(has_room(address(stack + kBytes - 8)));
  EXPECT_FALSE(has_room(8));
}

TEST(StackRoom, TheMainStackGrows) {
  const AddressRange stack = find_main_stack(ProcFs().maps(::getpid()).value());
  const int here = 0;
  ASSERT_TRUE(stack.contains(address(&here)));
  EXPECT_TRUE(has_room(address(&here), stack));
  // Pages that are not there yet are room as far as the limit goes.
  EXPECT_TRUE(has_room(stack.begin + 8, stack));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = stack.end - stack.begin;
  ASSERT_EQ(::setrlimit(RLIMIT_STACK, &limit), 0);
  EXPECT_FALSE(has_room(stack.begin + 8, stack));
  limit.rlim_cur = 4096;  // it is larger already
  ASSERT_EQ(::setrlimit(RLIMIT_STACK, &limit), 0);
  EXPECT_FALSE(has_room(stack.begin + 8, stack));
  ASSERT_EQ(::setrlimit(RLIMIT_STACK, &before), 0);
}

}  // namespace
}  // namespace memprofd
