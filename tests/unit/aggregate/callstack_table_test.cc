// SPDX-License-Identifier: Apache-2.0
#include "daemon/aggregate/callstack_table.h"

#include <gtest/gtest.h>

#include "bpf/events.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kRun = MEMPROF_RUN_MARK;

CallstackView view(std::uint64_t hash, std::span<const std::uint64_t> entries) {
  return {.hash = StackHash(hash),
          .entries = entries,
          .alloc_idx = 2,
          .n_frames = 9,
          .truncated = true};
}

TEST(CallstackTableTest, InternsOnceAndKeepsWhatCame) {
  CallstackTable table;
  std::vector<std::uint64_t> entries{1, 2, 3};
  const auto id = table.intern(view(77, entries));
  entries.assign(3, 0);
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(*id, CallstackId(1));
  EXPECT_EQ(table.intern(view(77, entries)), id);
  EXPECT_EQ(table.find(StackHash(77)), id);
  EXPECT_EQ(table.find(StackHash(78)), std::nullopt);
  EXPECT_EQ(table.size(), 1u);
  const Callstack& callstack = table.get(*id);
  EXPECT_EQ(callstack.entries, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(callstack.hash, StackHash(77));
  EXPECT_EQ(callstack.alloc_idx, 2);
  EXPECT_EQ(callstack.n_frames, 9u);
  EXPECT_TRUE(callstack.truncated);
  EXPECT_FALSE(callstack.broken);
}

TEST(CallstackTableTest, UnknownIdsAreTheUnknownCallstack) {
  CallstackTable table;
  EXPECT_TRUE(table.get(CallstackId()).entries.empty());
  EXPECT_EQ(&table.get(CallstackId(1234)), &table.get(CallstackId()));
}

std::vector<std::uint64_t> entries_up_to(std::uint64_t outermost) {
  std::vector<std::uint64_t> entries(CallstackTable::kCutEntries, 1);
  entries.push_back(outermost);
  return entries;
}

TEST(CallstackTableTest, CutsWhatThereIsNoRoomFor) {
  CallstackTable table({.callstacks = 2, .entries = 100});
  DropCounters drops;
  EXPECT_EQ(table.intern(view(1, entries_up_to(10))), CallstackId(1));
  EXPECT_EQ(table.intern(view(2, entries_up_to(11))), CallstackId(2));
  EXPECT_FALSE(table.overflowed());
  const auto cut = table.intern(view(3, entries_up_to(12)));
  EXPECT_TRUE(table.overflowed());
  ASSERT_EQ(cut, CallstackId(3));
  EXPECT_EQ(table.intern(view(4, entries_up_to(13))), cut) << "the same innermost entries";
  EXPECT_EQ(table.find(StackHash(4)), cut) << "its frames may not come again";
  EXPECT_EQ(table.intern(view(2, {})), CallstackId(2)) << "known ones stay";
  EXPECT_EQ(table.get(*cut).entries, std::vector<std::uint64_t>(CallstackTable::kCutEntries, 1));
  EXPECT_TRUE(table.get(*cut).truncated);
  EXPECT_EQ(table.size(), 3u);

  EXPECT_EQ(table.counted(CallstackId(2), drops), CallstackId(2));
  EXPECT_EQ(drops.total(), 0u);
  EXPECT_EQ(table.counted(cut, drops), *cut);
  EXPECT_EQ(table.counted(std::nullopt, drops), CallstackId());
  EXPECT_EQ(drops.get(Drop::kFollowCallstacksCut), 1u);
  EXPECT_EQ(drops.get(Drop::kFollowCallstacksFull), 1u);
}

TEST(CallstackTableTest, CombinedAllocationsStayApartWhenCut) {
  CallstackTable table({.callstacks = 0});
  const std::vector<std::uint64_t> entries = entries_up_to(10);
  const CallstackView first = view(1, entries);
  CallstackView second = first;
  second.hash = StackHash(2);
  second.alloc_idx = first.alloc_idx + 1;
  EXPECT_NE(table.intern(first), table.intern(second));
}

TEST(CallstackTableTest, CapOnEntries) {
  CallstackTable table({.callstacks = 100, .entries = 20, .cut_callstacks = 0});
  EXPECT_TRUE(table.intern(view(1, entries_up_to(10))).has_value());
  EXPECT_FALSE(table.intern(view(2, entries_up_to(11))).has_value());
  const std::vector<std::uint64_t> small{1, 2};
  EXPECT_FALSE(table.intern(view(3, small)).has_value()) << "full is full";
}

TEST(CallstackTableTest, CapsOnCutCallstacksAndHashes) {
  CallstackTable table({.callstacks = 0, .cut_callstacks = 2, .cut_hashes = 3});
  const std::vector<std::uint64_t> even{2}, odd{1};
  for (std::uint64_t hash = 1; hash <= 4; ++hash) {
    EXPECT_TRUE(table.intern(view(hash, hash % 2 == 0 ? even : odd)).has_value());
  }
  EXPECT_EQ(table.find(StackHash(4)), std::nullopt) << "one hash more than are remembered";
  EXPECT_TRUE(table.intern(view(4, even)).has_value()) << "found anew by its entries";
  const std::vector<std::uint64_t> other{7};
  EXPECT_EQ(table.intern(view(5, other)), std::nullopt);
  EXPECT_EQ(table.size(), 2u);
}

TEST(CallstackTest, RunsExpand) {
  Callstack callstack;
  callstack.entries = {5, 6, kRun | 3, 7};
  EXPECT_EQ(callstack.expand(100), (std::vector<std::uint64_t>{5, 6, 6, 6, 6, 7}));
  EXPECT_EQ(callstack.expand(3), (std::vector<std::uint64_t>{5, 6, 6}));
  EXPECT_TRUE(callstack.expand(0).empty());
}

TEST(CallstackTest, GarbageRunsAreSkippedAndBounded) {
  Callstack callstack;
  callstack.entries = {kRun | 9, 5, kRun | 1, kRun | 8, 6, kRun | 0xffffffff};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;
  callstack.for_each_run(
      [&](std::uint64_t address, std::uint64_t n) { runs.emplace_back(address, n); });
  EXPECT_EQ(runs, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{5, 2}, {6, 1ull << 32}}));
  EXPECT_EQ(callstack.expand(10).size(), 10u);
}

TEST(CallstackTableTest, WithoutMemoryCallstacksAreCutAndThenUnknown) {
  const auto memory = std::make_shared<ByteBudget>(20'000);
  CallstackTable table({.memory = memory});
  DropCounters drops;
  std::uint64_t hash = 0;
  while (!table.overflowed()) table.intern(view(++hash, entries_up_to(500)));
  const std::uint64_t whole = hash - 1;
  EXPECT_GE(whole, 2u);
  EXPECT_EQ(memory->refused(), 1u);
  std::vector<std::uint64_t> entries = entries_up_to(500);
  while (table.intern(view(++hash, entries))) entries.front() = hash;
  EXPECT_EQ(table.counted(table.intern(view(++hash, entries)), drops), CallstackId());
  EXPECT_EQ(drops.get(Drop::kFollowCallstacksFull), 1u);
  EXPECT_LE(memory->used(), 20'000u);
  EXPECT_EQ(table.intern(view(1, {})), CallstackId(1)) << "known ones stay";
}

}  // namespace
}  // namespace memprofd
