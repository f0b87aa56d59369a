// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/gc_stats.h"

#include <gtest/gtest.h>

#include "daemon/runtime/pool_offsets.h"
#include "tests/kit/asked_memory.h"
#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBase = 0x10000;
constexpr std::uint64_t kWord = 8;

// State: young_ptr, young_alloc_end, heap_chunks, then the minor heap where OCaml 4 has it, stats.
class Ocaml4 : public ::testing::Test {
 protected:
  Ocaml4() {
    abi_.young_start = 4 * kWord;
    abi_.young_ptr = 0;
    abi_.young_alloc_end = kWord;
    abi_.heap_chunks = 2 * kWord;
    abi_.stats = 6 * kWord;
    for (const std::uint64_t word : {2'000, 2'800, 7, 0, 1'200, 2'800}) state_.put(word);
    for (const double words : {5'000.0, 300.0, 400.0}) state_.put(words);
    for (const std::uint64_t count : {11, 12, 9'000, 9'500, 13}) state_.put(count);
    counters_.free_words = state_.put<std::uint64_t>(600);
  }

  FakeMemory state_{kBase};
  RuntimeAbi abi_;
  GcCounters counters_;
};

TEST_F(Ocaml4, TheCountersAreOneQuestion) {
  const AskedMemory memory(state_);
  const auto stats = read_gc_stats(memory, kBase, abi_, counters_);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(memory.times, 1);
  EXPECT_EQ(stats->minor_words, 5'100);
  EXPECT_EQ(stats->promoted_words, 300);
  EXPECT_EQ(stats->major_words, 400);
  EXPECT_EQ(stats->minor_collections, 11u);
  EXPECT_EQ(stats->major_collections, 12u);
  EXPECT_EQ(stats->heap_words, 9'000u);
  EXPECT_EQ(stats->top_heap_words, 9'500u);
  EXPECT_EQ(stats->compactions, 13u);
  EXPECT_EQ(stats->heap_chunks, 7u);
  EXPECT_EQ(stats->minor_heap_words, 200u);
  EXPECT_EQ(stats->free_words, 600u);
}

TEST_F(Ocaml4, AMinorHeapThatCannotBeIsNotKnown) {
  state_.poke<std::uint64_t>(kBase + 4 * kWord, 4'000);
  const auto stats = read_gc_stats(state_, kBase, abi_);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->minor_heap_words, 0u);
  EXPECT_EQ(stats->free_words, std::nullopt);
}

TEST_F(Ocaml4, MissingCountersAreReported) {
  state_.truncate(8 * kWord);
  EXPECT_TRUE(absl::IsOutOfRange(read_gc_stats(state_, kBase, abi_, counters_).status()));
}

// Two domains of the same state; kDomain is where.
class Ocaml5 : public ::testing::Test {
 protected:
  Ocaml5() {
    counters_.minor_collections = memory_.put<std::uint64_t>(21);
    counters_.major_cycles = memory_.put<std::uint64_t>(22);
    counters_.compactions = memory_.put<std::uint64_t>(23);
    heap_ = memory_.end();
    for (std::uint64_t at = 0; at < kHeapStats + 64; at += kWord) memory_.put<std::uint64_t>(0);
    memory_.poke<std::uint64_t>(heap_ + kHeapStats + kStatPoolWords, 4'096);
    memory_.poke<std::uint64_t>(heap_ + kHeapStats + kStatPoolLiveWords, 1'096);
    state_ = memory_.end();
    abi_.domains = true;
    abi_.young_start = 2 * kWord;
    abi_.young_ptr = 0;
    abi_.young_alloc_end = 3 * kWord;  // the end of the minor heap, too
    abi_.shared_heap = 4 * kWord;
    abi_.stats = 5 * kWord;
    for (const std::uint64_t word : {2'000, 0, 1'200, 2'800}) memory_.put(word);
    memory_.put(heap_);
    for (const std::uint64_t words : {5'000, 300, 400}) memory_.put(words);
  }

  FakeMemory memory_{kBase};
  std::uint64_t heap_ = 0, state_ = 0;
  RuntimeAbi abi_;
  GcCounters counters_;
};

TEST_F(Ocaml5, ADomainIsTwoQuestions) {
  const AskedMemory memory(memory_);
  const std::vector<DomainGc> domains(2, {state_, 16'000, {1'000, 100, 0}});
  const auto stats = read_domain_gc_stats(memory, abi_, counters_, domains, {10, 20, 30});
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(memory.times, 1 + 2 * 2);
  EXPECT_EQ(stats->minor_words, 10 + 2 * (4'000 + 100));
  EXPECT_EQ(stats->promoted_words, 20 + 2 * 200);
  EXPECT_EQ(stats->major_words, 30 + 2 * 400);
  EXPECT_EQ(stats->minor_collections, 21u);
  EXPECT_EQ(stats->major_collections, 22u);
  EXPECT_EQ(stats->compactions, 23u);
  EXPECT_EQ(stats->heap_words, 4'000u);
  EXPECT_EQ(stats->minor_heap_words, 400u);
  EXPECT_EQ(stats->free_words, 6'000u);
}

TEST_F(Ocaml5, RoomThatIsNotKnownOfOneDomainIsNotKnown) {
  memory_.poke<std::uint64_t>(heap_ + kHeapStats + kStatPoolLiveWords, 5'000);
  const std::vector<DomainGc> domains(1, {state_, 16'000, {}});
  const auto stats = read_domain_gc_stats(memory_, abi_, counters_, domains, {});
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->free_words, std::nullopt);
  EXPECT_EQ(stats->minor_heap_words, 200u);
}

TEST(GcStats, ReadsTheCounters) {
  const RuntimeAbi abi = *runtime_abi_for("4.13.1");
  FakeMemory memory(0x10000);
  for (int i = 0; i < 64; ++i) memory.put<std::uint64_t>(0);
  memory.poke<std::uint64_t>(0x10000 + abi.young_ptr, 0x7000'0000);
  memory.poke<std::uint64_t>(0x10000 + abi.young_alloc_end, 0x7000'0050);
  const std::uint64_t stats = 0x10000 + abi.stats;
  memory.poke(stats, 1000.0);
  memory.poke(stats + 8, 200.0);
  memory.poke(stats + 16, 300.0);
  for (std::uint64_t i = 3; i < 10; ++i) memory.poke(stats + 8 * i, i);
  const auto read = read_gc_stats(memory, 0x10000, abi);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->valid);
  EXPECT_EQ(read->minor_words, 1010.0);
  EXPECT_EQ(read->promoted_words, 200.0);
  EXPECT_EQ(read->major_words, 300.0);
  EXPECT_EQ(read->minor_collections, 3u);
  EXPECT_EQ(read->major_collections, 4u);
  EXPECT_EQ(read->heap_words, 5u);
  EXPECT_EQ(read->top_heap_words, 6u);
  EXPECT_EQ(read->compactions, 7u);
  EXPECT_EQ(read->heap_chunks, 9u);
  EXPECT_FALSE(read->free_words) << "where its count is was not said";
}

TEST(GcStats, ReportsRoomInTheHeapAndTheMinorHeap) {
  const RuntimeAbi abi = *runtime_abi_for("4.13.1");
  FakeMemory memory(0x10000);
  for (int i = 0; i < 65; ++i) memory.put<std::uint64_t>(0);
  memory.poke<std::uint64_t>(0x10000 + 32, 0x7000'0000);  // young_start
  memory.poke<std::uint64_t>(0x10000 + 40, 0x7000'8000);  // young_end
  memory.poke<std::uint64_t>(0x10000 + abi.stats + 40, 1000);
  memory.poke<std::uint64_t>(0x10000 + 512, 300);
  const GcCounters counters{.free_words = 0x10000 + 512};
  auto read = read_gc_stats(memory, 0x10000, abi, counters);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->minor_heap_words, 0x1000u);
  EXPECT_EQ(read->free_words, 300u);
  memory.poke<std::uint64_t>(0x10000 + 512, 2000);
  memory.poke<std::uint64_t>(0x10000 + 40, 0x6000'0000);
  read = read_gc_stats(memory, 0x10000, abi, counters);
  EXPECT_EQ(read->free_words, 1000u) << "not more than there is";
  EXPECT_EQ(read->minor_heap_words, 0u) << "it ends before it begins";
}

// Statistics of each domain's pools; an invalid one makes the sum unknown.
TEST(GcStats, SumsUpTheRoomOfDomains) {
  const RuntimeAbi abi = *runtime_abi_for("5.3.0");
  FakeMemory memory(0x10000);
  for (int i = 0; i < 1024; ++i) memory.put<std::uint64_t>(0);
  const GcCounters counters{.minor_collections = 0x11ff0, .major_cycles = 0x11ff8};
  const std::uint64_t states[] = {0x10000, 0x10400}, heaps[] = {0x10800, 0x10e00};
  std::vector<DomainGc> domains;
  for (int i = 0; i < 2; ++i) {
    memory.poke<std::uint64_t>(states[i] + abi.shared_heap, heaps[i]);
    memory.poke<std::uint64_t>(states[i] + 16, 0x7000'0000);
    memory.poke<std::uint64_t>(states[i] + 24, 0x7000'0800);
    memory.poke<std::uint64_t>(heaps[i] + kHeapStats + kStatPoolWords, 4096);
    memory.poke<std::uint64_t>(heaps[i] + kHeapStats + kStatPoolLiveWords, 1000 + i);
    domains.push_back({.state = states[i], .heap_bytes = 32768});
  }
  auto read = read_domain_gc_stats(memory, abi, counters, domains, {});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->free_words, 3096u + 3095u);
  EXPECT_EQ(read->minor_heap_words, 0x200u);
  memory.poke<std::uint64_t>(heaps[1] + kHeapStats + kStatPoolLiveWords, 5000);
  read = read_domain_gc_stats(memory, abi, counters, domains, {});
  EXPECT_FALSE(read->free_words);
  EXPECT_EQ(read->minor_heap_words, 0x200u);
}

TEST(GcStats, RefusesGarbage) {
  const RuntimeAbi abi = *runtime_abi_for("4.13.1");
  FakeMemory memory(0x10000);
  for (int i = 0; i < 64; ++i) memory.put<std::uint64_t>(0);
  ASSERT_TRUE(read_gc_stats(memory, 0x10000, abi).ok());
  memory.poke<std::uint64_t>(0x10000 + abi.stats, 0x7ff8'0000'0000'0000);  // NaN
  EXPECT_EQ(read_gc_stats(memory, 0x10000, abi).status().code(), absl::StatusCode::kDataLoss);
  memory.poke<std::uint64_t>(0x10000 + abi.stats, 0);
  memory.poke<std::uint64_t>(0x10000 + abi.stats + 24, ~0ull);
  EXPECT_EQ(read_gc_stats(memory, 0x10000, abi).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(read_gc_stats(memory, 0x90000, abi).ok());
}

}  // namespace
}  // namespace memprofd
