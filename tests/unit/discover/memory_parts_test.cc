// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/memory_parts.h"

#include <gtest/gtest.h>

namespace memprofd {
namespace {

constexpr MemoryStatus kStatus{
    .anonymous = 100'000, .files = 30'000, .shared = 2000, .swapped = 500, .threads = 1};

TEST(MemoryParts, AddUpToWhatIsResident) {
  GcStats gc;
  gc.heap_words = 5000;
  gc.free_words = 2000;
  gc.minor_heap_words = 1000;
  const MemoryParts parts = memory_parts(kStatus, gc);
  EXPECT_EQ(parts, (MemoryParts{.heap_used = 24'000,
                                .heap_free = 16'000,
                                .minor_heaps = 8000,
                                .other_anonymous = 52'000,
                                .files = 30'000,
                                .shared = 2000,
                                .swapped = 500}));
  EXPECT_EQ(parts.resident(), kStatus.resident());
}

// Room that was never touched goes first: blocks and minor heaps were written to.
TEST(MemoryParts, AreNotMoreThanIsResident) {
  GcStats gc;
  gc.heap_words = 20'000;
  gc.free_words = 10'000;
  gc.minor_heap_words = 1000;
  MemoryParts parts = memory_parts(kStatus, gc);
  EXPECT_EQ(parts.heap_used, 80'000u);
  EXPECT_EQ(parts.minor_heaps, 8000u);
  EXPECT_EQ(parts.heap_free, 12'000u);
  EXPECT_EQ(parts.other_anonymous, 0u);
  EXPECT_EQ(parts.resident(), kStatus.resident());
  gc.free_words = 30'000;
  EXPECT_EQ(memory_parts(kStatus, gc).heap_used, 0u) << "more room than heap";
}

TEST(MemoryParts, WithoutAHeapAllAnonymousMemoryIsTheRest) {
  const MemoryParts parts = memory_parts(kStatus, {});
  EXPECT_EQ(parts.other_anonymous, 100'000u);
  EXPECT_EQ(parts.resident(), kStatus.resident());
}

}  // namespace
}  // namespace memprofd
