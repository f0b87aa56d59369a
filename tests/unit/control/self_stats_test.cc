// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/self_stats.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/discover/memory_channel.h"
#include "daemon/discover/target_memory.h"
#include "daemon/util/clock.h"

namespace memprofd {
namespace {

TEST(SelfStats, CpuIsThatOfMemoryServersToo) {
  const auto memory = TargetMemory::open(::getpid());
  ASSERT_TRUE(memory.ok()) << memory.status();
  constexpr std::uint64_t kTakenNs = 5'000'000;
  const std::uint64_t before = MemoryChannel::servers_cpu_ns();
  const std::uint64_t word = 42;
  while (MemoryChannel::servers_cpu_ns() < before + kTakenNs) {
    std::uint64_t read = 0;
    ASSERT_TRUE((*memory)->read_value(reinterpret_cast<std::uint64_t>(&word), read).ok());
  }
  const auto own = static_cast<double>(clock_ns(CLOCK_PROCESS_CPUTIME_ID));
  EXPECT_GE(read_self_stats().cpu_seconds, (own + static_cast<double>(kTakenNs)) * 1e-9);
}

}  // namespace
}  // namespace memprofd
