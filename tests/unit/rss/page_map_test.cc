// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/page_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/rss/resident_reader.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kPages = 64;

// Pages of this process: 8 to 11 written, 20 only read, the rest untouched. A page of no access on
// either side keeps the kernel from joining them with other mappings.
class Pages : public testing::Test {
 protected:
  Pages() {
    memory_ =
        ::mmap(nullptr, (kPages + 2) * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin_ = reinterpret_cast<std::uint64_t>(memory_) + kPageBytes;
    void* pages = reinterpret_cast<void*>(begin_);
    EXPECT_EQ(::mprotect(pages, kPages * kPageBytes, PROT_READ | PROT_WRITE), 0);
    ::madvise(pages, kPages * kPageBytes, MADV_NOHUGEPAGE);
    for (std::uint64_t i = 8; i < 12; ++i) byte(i * kPageBytes) = 1;
    EXPECT_EQ(byte(20 * kPageBytes), 0);
  }
  ~Pages() override { ::munmap(memory_, (kPages + 2) * kPageBytes); }
  volatile char& byte(std::uint64_t at) { return *reinterpret_cast<volatile char*>(begin_ + at); }

  using Scan = absl::Status (PageMap::*)(std::uint64_t, std::uint64_t,
                                         const std::function<void(const PageRun&)>&) const;
  std::vector<std::uint64_t> resident(const PageMap& pages, Scan scan) const {
    std::vector<std::uint64_t> numbers;
    EXPECT_TRUE((pages.*scan)(begin_, begin_ + kPages * kPageBytes, [&](const PageRun& run) {
                  for (std::uint64_t at = run.begin; at < run.end; at += kPageBytes) {
                    numbers.push_back((at - begin_) / kPageBytes);
                  }
                }).ok());
    return numbers;
  }

  // Resident pages by the kernel's own count (Rss in smaps). Most kernels give a page that was only
  // read the zero page, which they do not count; some give it a page of its own, which they count.
  std::uint64_t kernel_count() const {
    std::ifstream smaps("/proc/self/smaps");
    char begins[32];
    std::snprintf(begins, sizeof begins, "%08lx-", begin_);
    bool found = false;
    for (std::string line; std::getline(smaps, line);) {
      if (line.starts_with(begins)) found = true;
      if (found && line.starts_with("Rss:")) return std::stoul(line.substr(4)) * 1024 / kPageBytes;
    }
    ADD_FAILURE() << "no mapping begins at " << begins;
    return 0;
  }
  bool has_zero_page() const { return kernel_count() == 4; }
  std::vector<std::uint64_t> expected() const {
    std::vector<std::uint64_t> numbers{8, 9, 10, 11};
    if (!has_zero_page()) numbers.push_back(20);
    return numbers;
  }

  void* memory_ = nullptr;
  std::uint64_t begin_ = 0;
};

TEST_F(Pages, ThatWereWrittenAreResidentInBothWaysOfAsking) {
  const auto pages = PageMap::open(::getpid());
  ASSERT_TRUE(pages.ok()) << pages.status();
  EXPECT_EQ(resident(*pages, &PageMap::scan), expected());
  EXPECT_EQ(expected().size(), kernel_count());
  auto words = resident(*pages, &PageMap::scan_words);
  // Without root the kernel hides frames, including the zero page's.
  if (::geteuid() != 0 && has_zero_page()) std::erase(words, 20u);
  EXPECT_EQ(words, expected());
}

TEST_F(Pages, GuardRegionsAreNeitherResidentNorSwapped) {
  constexpr int kInstall = 102;  // MADV_GUARD_INSTALL, of Linux 6.13
  const std::uint64_t guard = begin_ + 30 * kPageBytes;
  if (::madvise(reinterpret_cast<void*>(guard), 2 * kPageBytes, kInstall) != 0)
    GTEST_SKIP() << "this kernel has no guard regions";
  const auto pages = PageMap::open(::getpid());
  ASSERT_TRUE(pages.ok()) << pages.status();
  const std::vector<std::uint64_t> guards = resident(*pages, &PageMap::scan_guards);
  if (guards.empty()) GTEST_SKIP() << "this kernel does not show guard regions";
  EXPECT_EQ(guards, (std::vector<std::uint64_t>{30, 31}));
  EXPECT_EQ(resident(*pages, &PageMap::scan), expected());
  EXPECT_EQ(resident(*pages, &PageMap::scan_words), expected());
}

class OwnMemory final : public MemoryReader {
 public:
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
    ++reads;
    return absl::OkStatus();
  }
  mutable int reads = 0;
};

TEST_F(Pages, ThatAreNotResidentAreNotRead) {
  const auto pages = PageMap::open(::getpid());
  ASSERT_TRUE(pages.ok()) << pages.status();
  const OwnMemory memory;
  const ResidentReader reader(memory, *pages);
  char value = 0;
  EXPECT_TRUE(absl::IsUnavailable(reader.read_value(begin_, value)));
  EXPECT_TRUE(absl::IsUnavailable(reader.read_value(begin_ + 12 * kPageBytes, value)));
  std::uint64_t across = 0;
  EXPECT_TRUE(absl::IsUnavailable(reader.read_value(begin_ + 12 * kPageBytes - 4, across)));
  EXPECT_EQ(memory.reads, 0);
  EXPECT_TRUE(reader.read_value(begin_ + 8 * kPageBytes, value).ok());
  EXPECT_EQ(value, 1);
  EXPECT_TRUE(reader.read_value(begin_ + 11 * kPageBytes, value).ok());
  EXPECT_EQ(memory.reads, 1) << "one piece has both";
  EXPECT_EQ(resident(*pages, &PageMap::scan), expected()) << "nothing was mapped by looking";
  EXPECT_FALSE(reader.read_value(~std::uint64_t{0} - 4, across).ok());
}

// Following a cyclic list in memory ends as well.
TEST_F(Pages, AreNotReadWhenThereIsNoTimeAnyMore) {
  const auto pages = PageMap::open(::getpid());
  ASSERT_TRUE(pages.ok()) << pages.status();
  const OwnMemory memory;
  char value = 0;
  const ResidentReader over(memory, *pages, ResidentReader::Clock::now());
  EXPECT_TRUE(absl::IsDeadlineExceeded(over.read_value(begin_ + 8 * kPageBytes, value)));
  EXPECT_TRUE(over.late());
  EXPECT_TRUE(over.broken().ok());
  EXPECT_EQ(memory.reads, 0);
  std::stop_source stop;
  const ResidentReader unwanted(memory, *pages, ResidentReader::Clock::time_point::max(),
                                stop.get_token());
  EXPECT_TRUE(unwanted.read_value(begin_ + 8 * kPageBytes, value).ok());
  EXPECT_FALSE(unwanted.late());
  stop.request_stop();
  int read = 0;
  while (unwanted.read_value(begin_ + 8 * kPageBytes, value).ok() && read < 100'000) ++read;
  EXPECT_LT(read, 100'000);
  EXPECT_TRUE(unwanted.late());
}

TEST(PageMap, OfNoProcessIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(PageMap::open(1 << 30).status()));
}

}  // namespace
}  // namespace memprofd
