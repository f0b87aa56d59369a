// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/runtime_locks.h"

#include <gtest/gtest.h>

#include <vector>

namespace memprofd {
namespace {

constexpr std::uint64_t kAt = 0x1000;

std::vector<std::byte> code(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// The end of caml_thread_enter_blocking_section of Debian 12's OCaml 4.13.1.
std::vector<std::byte> enter_of_threads() {
  return code({0x53, 0x48, 0x8d, 0x1d, 0x01, 0x67, 0x08, 0x00,              // push, lea
               0x48, 0x89, 0xdf, 0xe8, 0xfb, 0x44, 0xfc, 0xff,              // mov, call
               0x48, 0x89, 0xdf,                                            // mov
               0xc7, 0x05, 0xa6, 0x66, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00,  // movl $0, busy
               0xe8, 0xe9, 0x45, 0xfc, 0xff, 0x48, 0x8d, 0x7b, 0x30, 0x5b,  // call, lea, pop
               0xe9, 0x0f, 0x3b, 0xfc, 0xff});                              // jmp
}

TEST(RuntimeLocks, TheHookOfThreadsShowsThePlaceOfTheLock) {
  const auto hook = read_enter_hook(enter_of_threads(), kAt);
  ASSERT_TRUE(hook);
  EXPECT_FALSE(hook->does_nothing);
  EXPECT_EQ(hook->busy, kAt + 29 + 0x866a6);
}

TEST(RuntimeLocks, TheHookWithoutThreadsDoesNothing) {
  for (const auto& bytes : {code({0xc3}), code({0xf3, 0x0f, 0x1e, 0xfa, 0xc3, 0x90})}) {
    const auto hook = read_enter_hook(bytes, kAt);
    ASSERT_TRUE(hook);
    EXPECT_TRUE(hook->does_nothing);
    EXPECT_EQ(hook->busy, 0u);
  }
}

TEST(RuntimeLocks, AnotherHookIsNotKnown) {
  EXPECT_FALSE(read_enter_hook({}, kAt));
  EXPECT_FALSE(read_enter_hook(code({0x48, 0x89, 0xdf, 0xc3}), kAt));  // stores nothing
  auto cut = enter_of_threads();
  cut.resize(cut.size() - 5);
  EXPECT_FALSE(read_enter_hook(cut, kAt));
  auto two = enter_of_threads();
  const std::vector<std::byte> store(two.begin() + 19, two.begin() + 29);
  two.insert(two.begin() + 19, store.begin(), store.end());
  EXPECT_FALSE(read_enter_hook(two, kAt)) << "which of the two it is";
}

// caml_acquire_domain_lock of Debian 13's OCaml 5.3.0.
TEST(RuntimeLocks, TheLockOfADomainAndItsState) {
  const auto places = read_domain_offsets(code(
      {0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x64, 0x48, 0x8b, 0x1c, 0x25, 0xe0, 0xff, 0xff, 0xff, 0x48,
       0x8d, 0xbb, 0xa0, 0x00, 0x00, 0x00, 0xe8, 0x26, 0x75, 0xf9, 0xff, 0x85, 0xc0, 0x75, 0x0f,
       0x48, 0x8b, 0x43, 0x08, 0x64, 0x48, 0x89, 0x04, 0x25, 0xe8, 0xff, 0xff, 0xff, 0x5b, 0xc3}));
  ASSERT_TRUE(places);
  EXPECT_EQ(places->lock, 160u);
  EXPECT_EQ(places->state, 8u);
  EXPECT_FALSE(read_domain_offsets(code({0x53, 0x5b, 0xc3})));
}

// The code of caml_try_run_on_all_domains_with_spin_work reads the leader twice, another word, the
// number of domains, another int, and the list of domains.
TEST(RuntimeLocks, TheWordsOfASection) {
  const auto bytes = code({0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, 0x48, 0x85,
                           0xc0, 0x48, 0x8b, 0x05, 0xf6, 0x00, 0x00, 0x00,  // the same word
                           0x4c, 0x8b, 0x3d, 0x00, 0x00, 0x00, 0x00,        // another one
                           0x48, 0x63, 0x05, 0x00, 0x02, 0x00, 0x00,        // movslq domains
                           0x8b, 0x15, 0x00, 0x03, 0x00, 0x00,              // another int
                           0x48, 0x8b, 0x05, 0xfb, 0x01, 0x00, 0x00,        // domains + 8
                           0xc3});
  const auto words = read_section_words(bytes, kAt);
  ASSERT_TRUE(words);
  EXPECT_EQ(words->leader, kAt + 7 + 0x100);
  EXPECT_EQ(words->domains, kAt + 31 + 0x200);
  EXPECT_FALSE(read_section_words(code({0xc3}), kAt));
}

// OCaml 5.5 of Debian: the array's address is loaded relative to r12.
TEST(RuntimeLocks, TheWordsOfASectionRelativeToARegister) {
  std::vector<std::byte> bytes = code({0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00,  // leader
                                       0x48, 0x63, 0x05, 0x00, 0x02, 0x00, 0x00,  // domains, an int
                                       0x4c, 0x8d, 0x25, 0xf9, 0x01, 0x00, 0x00,  // lea, r12
                                       0x49, 0x8b, 0x44, 0x24, 0x08,              // 8(%r12)
                                       0xc3});
  const auto words = read_section_words(bytes, kAt);
  ASSERT_TRUE(words);
  EXPECT_EQ(words->leader, kAt + 7 + 0x100);
  EXPECT_EQ(words->domains, kAt + 14 + 0x200);
  bytes[15] = std::byte{0x8b};  // r12 has another word then, not its address
  EXPECT_FALSE(read_section_words(bytes, kAt));
}

}  // namespace
}  // namespace memprofd
