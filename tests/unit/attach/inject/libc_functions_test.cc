// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/libc_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace memprofd {
namespace {

using ::testing::HasSubstr;

// Found like a debugger finds it.
std::uint64_t loaded_list_of_this_process() {
  for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_DEBUG) return entry->d_un.d_ptr;
  return 0;
}

TEST(LibcFunctions, OfThisProcess) {
  const auto found = find_libc_functions(::getpid(), ProcFs().maps(::getpid()).value());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->raise, reinterpret_cast<std::uint64_t>(&::raise));
  EXPECT_EQ(found->syscall, reinterpret_cast<std::uint64_t>(&::syscall));
  EXPECT_NE(found->dlopen, 0u);
  EXPECT_NE(found->restorer, 0u);
  EXPECT_EQ(found->loaded_list, loaded_list_of_this_process());
  EXPECT_LE(found->text_begin, found->raise);
  EXPECT_LT(found->raise, found->text_end);
  const auto* distance = reinterpret_cast<const std::int64_t*>(found->errno_slot);
  ASSERT_NE(distance, nullptr);
  EXPECT_EQ(reinterpret_cast<const char*>(__builtin_thread_pointer()) + *distance,
            reinterpret_cast<const char*>(&errno));
}

class WithoutGlibc : public ::testing::Test {
 protected:
  static std::string refusal(const std::string& maps) {
    const auto found = find_libc_functions(42, parse_maps(maps));
    EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(found.status().message());
  }
};

TEST_F(WithoutGlibc, MuslIsNamed) {
  const std::string said = refusal(
      "555500000000-555500001000 r-xp 00000000 fd:01 12 /app/server\n"
      "7f0000000000-7f0000060000 r-xp 00014000 fd:01 34 /lib/ld-musl-x86_64.so.1\n");
  EXPECT_THAT(said, HasSubstr("pid 42 runs on the musl C library"));
  EXPECT_THAT(said, HasSubstr("memprof-agent package"));
}

TEST_F(WithoutGlibc, StaticProgram) {
  EXPECT_THAT(refusal("400000-500000 r-xp 00000000 fd:01 12 /app/server\n"),
              HasSubstr("pid 42 has no shared GNU C library"));
}

}  // namespace
}  // namespace memprofd
