// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/live_set.h"

#include <gtest/gtest.h>

#include "agent-lib/include/memprof_agent_abi.h"

namespace memprofd {
namespace {

LiveSample sample(std::uint32_t id, Heap heap = Heap::kMinor) {
  return {1000 + id, 3, ClassId(id), heap};
}

TEST(LiveSetTest, InsertFindTake) {
  LiveSet live(10);
  EXPECT_EQ(live.insert(SampleId(5), sample(7)), LiveSet::Inserted::kYes);
  LiveSample* found = live.find(SampleId(5));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->heap(), Heap::kMinor);
  found->move_to_major();
  const auto taken = live.take(SampleId(5));
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->heap(), Heap::kMajor);
  EXPECT_EQ(taken->alloc_class(), ClassId(7));
  EXPECT_EQ(taken->alloc_time_ns(), 1007u);
  EXPECT_EQ(taken->n_samples(), 3u);
  EXPECT_EQ(live.find(SampleId(5)), nullptr);
  EXPECT_FALSE(live.take(SampleId(5)).has_value());
  EXPECT_EQ(live.size(), 0u);
}

TEST(LiveSetTest, SecondInsertOfAnIdChangesNothing) {
  LiveSet live(10);
  live.insert(SampleId(1), sample(1));
  EXPECT_EQ(live.insert(SampleId(1), sample(2)), LiveSet::Inserted::kAlreadyThere);
  EXPECT_EQ(live.find(SampleId(1))->alloc_class(), ClassId(1));
}

TEST(LiveSetTest, TakesNoMoreThanItsMemory) {
  const auto memory = std::make_shared<ByteBudget>(100'000);
  LiveSet live(1'000'000, memory);
  std::uint32_t id = 0;
  while (live.insert(SampleId(id), sample(id)) == LiveSet::Inserted::kYes) ++id;
  EXPECT_GT(id, 1000u);
  EXPECT_LE(live.memory_bytes(), 100'000u);
  EXPECT_EQ(memory->used(), live.memory_bytes());
  EXPECT_EQ(memory->refused(), 1u);
  EXPECT_EQ(live.insert(SampleId(id), sample(id)), LiveSet::Inserted::kFull);
  EXPECT_EQ(live.insert(SampleId(3), sample(3)), LiveSet::Inserted::kAlreadyThere);
  live.take(SampleId(3));
  EXPECT_EQ(live.insert(SampleId(id), sample(id)), LiveSet::Inserted::kYes) << "one has gone";
  memory->set_limit(1'000'000);
  EXPECT_EQ(live.insert(SampleId(id + 1), sample(id)), LiveSet::Inserted::kYes);
  live.clear();
  EXPECT_EQ(memory->used(), 0u);
}

TEST(LiveSetTest, ChargesWhatItTakesWhenBlocksComeAndGo) {
  const auto memory = std::make_shared<ByteBudget>(kNoLimit);
  LiveSet live(10'000, memory);
  for (std::uint32_t id = 0; id < 40'000; ++id) {
    live.insert(SampleId(id), sample(id));
    if (id >= 5000) live.take(SampleId(id - 5000 + id % 7));
    ASSERT_GE(memory->used(), live.memory_bytes());
  }
}

TEST(LiveSetTest, Cap) {
  LiveSet live(2);
  live.insert(SampleId(1), sample(1));
  live.insert(SampleId(2), sample(1, Heap::kMajor));
  EXPECT_EQ(live.insert(SampleId(3), sample(1)), LiveSet::Inserted::kFull);
  EXPECT_EQ(live.insert(SampleId(2), sample(1)), LiveSet::Inserted::kAlreadyThere);
  live.take(SampleId(1));
  EXPECT_EQ(live.insert(SampleId(3), sample(1)), LiveSet::Inserted::kYes);
}

TEST(LiveSetTest, ClassIdsThatDoNotFitBecomeUnknown) {
  EXPECT_EQ(sample(LiveSample::kMaxClassId).alloc_class(), ClassId(LiveSample::kMaxClassId));
  EXPECT_EQ(sample(LiveSample::kMaxClassId + 1).alloc_class(), ClassId());
}

TEST(LiveSetTest, AMillionSamplesStayUnder100MBAndAreGivenBack) {
  LiveSet live(2'000'000);
  std::size_t worst_per_sample = 0;
  for (std::uint64_t id = 1; id <= 1'000'000; ++id) {
    live.insert(SampleId(id), sample(1));
    if (id >= 10'000) worst_per_sample = std::max(worst_per_sample, live.memory_bytes() / id);
  }
  EXPECT_LT(live.memory_bytes(), 100'000'000u);
  EXPECT_LE(worst_per_sample, 64u);
  live.clear();
  EXPECT_EQ(live.size(), 0u);
  EXPECT_EQ(live.memory_bytes(), 0u);
}

// Ids of one domain are that far apart.
TEST(LiveSetTest, SamplesOfOneDomain) {
  constexpr std::uint64_t kStep = MEMPROF_BUFFERS;
  LiveSet live(200'000);
  for (std::uint64_t i = 0; i < 100'000; ++i) live.insert(SampleId(3 + i * kStep), sample(1));
  EXPECT_LE(live.memory_bytes() / live.size(), 64u);
  for (std::uint64_t i = 0; i < 100'000; i += 2) {
    EXPECT_TRUE(live.take(SampleId(3 + i * kStep)).has_value());
  }
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    EXPECT_EQ(live.find(SampleId(3 + i * kStep)) != nullptr, i % 2 == 1);
    EXPECT_EQ(live.find(SampleId(4 + i * kStep)), nullptr);
  }
}

}  // namespace
}  // namespace memprofd
