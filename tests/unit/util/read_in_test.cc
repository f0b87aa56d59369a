// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/read_in.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "daemon/util/fd.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

// True if the page cache has a page of the file.
bool has_page(int file, std::uint64_t offset) {
  void* const page =
      ::mmap(nullptr, kCodePageBytes, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset));
  if (page == MAP_FAILED) return false;
  unsigned char is_there = 0;
  const bool told = ::mincore(page, kCodePageBytes, &is_there) == 0;
  ::munmap(page, kCodePageBytes);
  return told && (is_there & 1) != 0;
}

// Pages are far enough from each other for none to be read with another one.
TEST(ReadIn, PagesOfProbesAreInThePageCacheBeforeTheKernelNeedsThem) {
  constexpr std::uint64_t kFar = 16 << 20;
  const TempDir dir;
  const std::string path = dir.write("program", std::string(3 * kFar, 'x'));
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(0, ::fsync(file.get()));
  ASSERT_EQ(0, ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED));
  if (has_page(file.get(), kFar)) GTEST_SKIP() << "this file system keeps its pages (tmpfs)";
  const std::vector<std::uint64_t> offsets{kFar + 17, 2 * kFar + 5000, 5 * kFar};
  read_in(file.get(), offsets);
  EXPECT_TRUE(has_page(file.get(), kFar));
  EXPECT_TRUE(has_page(file.get(), 2 * kFar + kCodePageBytes));
}

}  // namespace
}  // namespace memprofd
