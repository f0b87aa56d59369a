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

TEST(CallstackTableTest, CapOnCallstacks) {
  CallstackTable table({.callstacks = 2, .entries = 100});
  const std::vector<std::uint64_t> entries{1};
  EXPECT_TRUE(table.intern(view(1, entries)).has_value());
  EXPECT_TRUE(table.intern(view(2, entries)).has_value());
  EXPECT_FALSE(table.overflowed());
  EXPECT_FALSE(table.intern(view(3, entries)).has_value());
  EXPECT_TRUE(table.overflowed());
  EXPECT_TRUE(table.intern(view(2, entries)).has_value()) << "known ones stay";
}

TEST(CallstackTableTest, CapOnEntries) {
  CallstackTable table({.callstacks = 100, .entries = 5});
  const std::vector<std::uint64_t> entries{1, 2, 3};
  EXPECT_TRUE(table.intern(view(1, entries)).has_value());
  EXPECT_FALSE(table.intern(view(2, entries)).has_value());
  EXPECT_TRUE(table.intern(view(3, std::span(entries).first(2))).has_value());
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

}  // namespace
}  // namespace memprofd
