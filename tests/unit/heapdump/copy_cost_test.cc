// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/copy_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "daemon/model/pause_refusal.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using testing::HasSubstr;

constexpr char kRollup[] =
    "55d000000000-7ffd00000000 ---p 00000000 00:00 0                          [rollup]\n"
    "Rss:             1048576 kB\n"
    "Pss_Anon:         900000 kB\n"
    "Anonymous:        900000 kB\n"
    "AnonHugePages:    800000 kB\n";

TEST(CopyCost, CountsAnonymousPagesAndHugeOnes) {
  const auto cost = parse_smaps_rollup(kRollup);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(900'000u << 10, cost->anonymous_bytes);
  EXPECT_EQ(800'000u << 10, cost->huge_bytes);
}

TEST(CopyCost, ReportsMissingNumbers) {
  const std::string text = kRollup;
  for (const std::size_t bytes :
       {std::size_t{0}, text.find("Anonymous"), text.find("AnonHuge"), text.find("800000")}) {
    EXPECT_EQ(absl::StatusCode::kDataLoss,
              parse_smaps_rollup(text.substr(0, bytes)).status().code());
  }
  EXPECT_FALSE(parse_smaps_rollup("Anonymous: -1 kB\nAnonHugePages: 0 kB\n").ok());
  EXPECT_FALSE(
      parse_smaps_rollup("Anonymous: 99999999999999999999 kB\nAnonHugePages: 0 kB\n").ok());
  EXPECT_EQ(1024u, parse_smaps_rollup("Anonymous: 1 kB\nAnonHugePages: 2 kB\n")->huge_bytes);
}

TEST(CopyCost, OnlySmallPagesCostTime) {
  const TempDir dir;
  dir.write("42/smaps_rollup", kRollup);
  const auto cost = predict_copy_cost(42, {.page_seconds = 1e-7}, ProcFs(dir.path()));
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_NEAR(25'000 * 1e-7, cost->pause_seconds, 1e-12);
  EXPECT_EQ(absl::StatusCode::kNotFound,
            predict_copy_cost(43, {.page_seconds = 1e-7}, ProcFs(dir.path())).status().code());
}

TEST(CopyCost, OfThisProcessGrowsWithItsMemory) {
  const auto before = predict_copy_cost(::getpid(), {.page_seconds = 1e-7});
  ASSERT_TRUE(before.ok()) << before.status();
  constexpr std::size_t kBytes = 32u << 20;
  void* pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  ASSERT_NE(MAP_FAILED, pages);
  const auto after = predict_copy_cost(::getpid(), {.page_seconds = 1e-7});
  EXPECT_GE(after->anonymous_bytes, before->anonymous_bytes + kBytes * 9 / 10);
  ::munmap(pages, kBytes);
}

// On a busy machine everything takes longer, and a woken thread waits.
TEST(CopyCost, OthersOnTheProcessorsMakeItLonger) {
  const TempDir dir;
  dir.write("42/smaps_rollup", kRollup);
  const CopySpeed speed{
      .page_seconds = 1e-7, .fixed_seconds = 5e-4, .slowdown = 4, .wake_seconds = 2e-3};
  const auto cost = predict_copy_cost(42, speed, ProcFs(dir.path()));
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_NEAR((25'000 * 1e-7 + 5e-4) * 4 + 2e-3, cost->pause_seconds, 1e-12);
}

TEST(CopyCost, ACopyIsRehearsed) {
  const auto speed = rehearse_copy(::getpid());
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->page_seconds, 1e-9);
  EXPECT_LT(speed->page_seconds, 1e-4);
  EXPECT_GT(speed->fixed_seconds, 1e-5);
  EXPECT_GE(speed->slowdown, 1);
  EXPECT_GE(speed->wake_seconds, 0);
}

TEST(CopyCost, TooLongAPauseIsRefusedWithTheRemedy) {
  CopyCost cost{.anonymous_bytes = 5u << 20, .huge_bytes = 2u << 20, .pause_seconds = 0.095};
  EXPECT_TRUE(check_pause(42, cost, 0.095).ok());
  const absl::Status refused = check_pause(42, cost, 0.05);
  EXPECT_EQ(absl::StatusCode::kOutOfRange, refused.code());
  EXPECT_THAT(
      std::string(refused.message()),
      HasSubstr("pause pid 42 for about 95.0 ms, and 50.0 ms are allowed: pass --max-pause 190ms"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("3.00 MiB of it are in small pages"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("glibc.malloc.hugetlb=1"));
  const auto refusal = pause_refusal_of(refused);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(0.095, refusal->predicted_seconds);
  EXPECT_EQ(0.05, refusal->allowed_seconds);
  EXPECT_EQ(0.19, refusal->enough_seconds());
  EXPECT_TRUE(check_pause(42, cost, refusal->enough_seconds()).ok());
}

}  // namespace
}  // namespace memprofd
