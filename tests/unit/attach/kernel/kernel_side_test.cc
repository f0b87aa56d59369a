// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_side.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "bpf/events.h"

namespace memprofd {
namespace {

// Results of the walk.
std::uint64_t find(const std::vector<std::uint64_t>& table, std::uint32_t bits,
                   std::uint64_t address) {
  for (std::uint32_t i = 0; i < MEMPROF_MAX_PROBES; ++i) {
    const auto slot = table[(memprof_slot_home(address, bits) + i) & (table.size() - 1)];
    if (slot == 0 || MEMPROF_SLOT_RETADDR(slot) == address) return slot;
  }
  return 0;
}

TEST(KernelTableTest, AddsToWhatIsThere) {
  constexpr std::uint32_t kBits = 6;
  std::vector<std::uint64_t> table(1 << kBits);
  std::vector<std::uint64_t> first, second;
  for (std::uint64_t i = 1; i <= 40; ++i)
    (i % 2 == 0 ? first : second).push_back(MEMPROF_SLOT(i * 0x1000, 16 + i));
  second.push_back(0);  // an empty slot of a sparse table
  EXPECT_TRUE(add_kernel_slots(table, kBits, first).ok());
  EXPECT_TRUE(add_kernel_slots(table, kBits, second).ok());
  for (std::uint64_t i = 1; i <= 40; ++i)
    EXPECT_EQ(find(table, kBits, i * 0x1000), MEMPROF_SLOT(i * 0x1000, 16 + i));
}

TEST(KernelTableTest, SameAddressAgainReplacesTheSize) {
  std::vector<std::uint64_t> table(8);
  const std::vector<std::uint64_t> old{MEMPROF_SLOT(0x401000, 16)};
  const std::vector<std::uint64_t> now{MEMPROF_SLOT(0x401000, 48)};
  EXPECT_TRUE(add_kernel_slots(table, 3, old).ok());
  EXPECT_TRUE(add_kernel_slots(table, 3, now).ok());
  EXPECT_EQ(find(table, 3, 0x401000), now[0]);
  EXPECT_EQ(std::count(table.begin(), table.end(), 0u), 7);
}

TEST(KernelTableTest, FullTableRefusesTheRestAndSaysHowMany) {
  std::vector<std::uint64_t> table(4);
  std::vector<std::uint64_t> additions;
  for (std::uint64_t i = 1; i <= 6; ++i) additions.push_back(MEMPROF_SLOT(i * 0x1000, 16));
  const auto status = add_kernel_slots(table, 2, additions);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("no room for 2 new frame descriptors"), absl::string_view::npos)
      << status;
  for (std::uint64_t i = 1; i <= 4; ++i) EXPECT_NE(find(table, 2, i * 0x1000), 0u);
}

}  // namespace
}  // namespace memprofd
