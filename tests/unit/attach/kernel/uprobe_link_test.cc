// SPDX-License-Identifier: Apache-2.0
// Pages are in the page cache before the kernel is asked to place a probe in them: it then reads
// none itself (util/read_in.h). It is asked for a program that does not exist, so it refuses before
// it reads any page.
#include "daemon/attach/kernel/uprobe_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/util/fd.h"
#include "daemon/util/read_in.h"

namespace memprofd {
namespace {

// A file on the disk of the test programs, none of whose pages is in the page cache.
class UprobePages : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kPages = 256;

  void SetUp() override {
    char program[4096];
    const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
    ASSERT_GT(length, 0);
    std::string path(program, static_cast<std::size_t>(length));
    path += ".pages-XXXXXX";
    file_ = std::make_shared<const UniqueFd>(::mkstemp(path.data()));
    ASSERT_TRUE(*file_);
    ::unlink(path.c_str());
    const std::vector<char> content(kPages * kCodePageBytes, 'x');
    ASSERT_EQ(::write(file_->get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    ASSERT_EQ(::fsync(file_->get()), 0);
    ASSERT_EQ(::posix_fadvise(file_->get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    // The kernel then reads no other page than the requested one.
    ASSERT_EQ(::posix_fadvise(file_->get(), 0, 0, POSIX_FADV_RANDOM), 0);
    ASSERT_EQ(cached(), std::vector<std::uint64_t>());
  }

  // The numbers of the pages that are in the page cache.
  std::vector<std::uint64_t> cached() const {
    const std::uint64_t bytes = kPages * kCodePageBytes;
    void* const mapping = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_->get(), 0);
    EXPECT_NE(mapping, MAP_FAILED);
    std::vector<unsigned char> states(kPages);
    EXPECT_EQ(::mincore(mapping, bytes, states.data()), 0);
    ::munmap(mapping, bytes);
    std::vector<std::uint64_t> pages;
    for (std::uint64_t page = 0; page < kPages; ++page) {
      if ((states[page] & 1) != 0) pages.push_back(page);
    }
    return pages;
  }

  SharedFd file_;
};

TEST_F(UprobePages, AreReadBeforeAProbeIsPlaced) {
  const ProbeSite site{.file = file_, .offset = 100 * kCodePageBytes + 16};
  EXPECT_FALSE(UprobeLink::attach(nullptr, UprobeKind::kMultiLink, ::getpid(), site, "a").ok());
  EXPECT_EQ(cached(), std::vector<std::uint64_t>{100});
}

TEST_F(UprobePages, AreReadBeforeManyProbesArePlaced) {
  const ProbeSites sites{
      .file = file_,
      .offsets = {8, 50 * kCodePageBytes, 51 * kCodePageBytes - 1, 200 * kCodePageBytes + 100},
      .cookies = {1, 2, 3, 4}};
  EXPECT_FALSE(UprobeLink::attach_all(nullptr, ::getpid(), sites, "a").ok());
  EXPECT_EQ(cached(), (std::vector<std::uint64_t>{0, 50, 200}));
}

}  // namespace
}  // namespace memprofd
