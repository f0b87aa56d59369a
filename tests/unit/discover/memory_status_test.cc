// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/memory_status.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace memprofd {
namespace {

TEST(MemoryStatus, HasTheNumbersOfTheKernelInBytes) {
  const auto status = parse_memory_status(
      "Name:\tserver\nVmRSS:\t  9 kB\nRssAnon:\t    4 kB\nRssFile:\t    3 kB\nRssShmem:\t 2 kB\n"
      "VmPTE:\t  44 kB\nVmSwap:\t 8 kB\nHugetlbPages:\t2048 kB\nThreads:\t7\n");
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->resident(), 9u * 1024);
  EXPECT_EQ(status->anonymous, 4u * 1024);
  EXPECT_EQ(status->swapped, 8u * 1024);
  EXPECT_EQ(status->page_tables, 44u * 1024);
  EXPECT_EQ(status->huge_pages, 2u << 20);
  EXPECT_EQ(status->threads, 7);
}

TEST(MemoryStatus, AProcessWithoutMemoryIsAnError) {
  for (const char* text : {"", "Name:\tkthreadd\nThreads:\t1\n", "RssAnon", "RssAnon:\n",
                           "RssAnon: -3 kB\n", "RssAnon: 99999999999999999999 kB\n",
                           "RssAnon: 9999999999999999999 kB\n", "RssAnon: x kB\n"}) {
    EXPECT_TRUE(absl::IsDataLoss(parse_memory_status(text).status())) << text;
  }
}

TEST(MemoryStatus, OfThisProcessIsRead) {
  const auto status = read_memory_status(::getpid());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GT(status->resident(), 1u << 20);
  EXPECT_TRUE(absl::IsNotFound(read_memory_status(1 << 30).status()));
}

}  // namespace
}  // namespace memprofd
