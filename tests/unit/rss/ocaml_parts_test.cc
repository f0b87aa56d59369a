// SPDX-License-Identifier: Apache-2.0
// The tables of a runtime of OCaml 4 among chunks of malloc, when the reading ends at any point.
#include "daemon/rss/ocaml_parts.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBase = 0x10000;
constexpr std::uint64_t kHead = 16;  // of a chunk
constexpr std::uint64_t kChannelBuffer = 65'536;

// Answers that many reads, then none.
class MemoryThatEnds : public MemoryReader {
 public:
  MemoryThatEnds(const MemoryReader& memory, int reads) : memory_(memory), left_(reads) {}

  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    if (left_ == 0) return absl::DeadlineExceededError("no time is left");
    --left_;
    return memory_.read(address, out);
  }
  bool ended() const { return left_ == 0; }

 private:
  const MemoryReader& memory_;
  mutable int left_;
};

// A domain state leads to a remembered set through its reference table, and to a channel.
class FakeTables {
 public:
  FakeTables() : memory_(kBase) {
    runtime_.state_pointer = memory_.put(std::uint64_t{0});
    memory_.put(std::uint64_t{0});
    heap_ = memory_.end();
    const std::uint64_t state = chunk(0x200);
    chunk(0x40);  // keeps extents of one class apart
    const std::uint64_t table = chunk(0x50), set = chunk(0x800);
    const std::uint64_t channel = chunk(kChannelBuffer + 0x60);
    chunk(0x40);
    memory_.poke(runtime_.state_pointer, state);
    memory_.poke(state + 0x40, table);
    memory_.poke(state + 0x48, channel);
    const std::uint64_t words[] = {set, set + 96 * 8, set + 64 * 8, set, set + 64 * 8, 64, 32};
    for (std::size_t i = 0; i < std::size(words); ++i) memory_.poke(table + 8 * i, words[i]);
    const std::uint64_t end = channel + 0x50 + kChannelBuffer;
    memory_.poke(channel + 16, end);
    memory_.poke(channel + 24, end);
  }

  // The class of each table by its address. reads: number of reads that are answered.
  std::map<std::uint64_t, RssClass> found(int reads, bool& ended) const {
    const MemoryThatEnds memory(memory_, reads);
    OcamlParts parts(memory, runtime_, nullptr);
    MallocWalk walk(memory, [&](auto user, auto bytes) { return parts.check_chunk(user, bytes); },
                    {});
    const Arena arena{.bins = 0, .top = 0, .system_bytes = 0, .is_main = true, .heaps = {}};
    walk.walk_arena(arena, 0, {{heap_, memory_.end()}});
    ExtentLayer heaps, tables, channels;
    parts.find_heaps(heaps);
    walk.chunks().seal();
    parts.find_tables(walk, tables, channels);
    std::map<std::uint64_t, RssClass> found;
    for (ExtentLayer* layer : {&tables, &channels}) {
      layer->seal();
      for (const Extent& extent : layer->extents()) found[extent.begin] = extent.kind;
    }
    ended = memory.ended();
    return found;
  }

 private:
  // Returns the user's address.
  std::uint64_t chunk(std::uint64_t bytes) {
    const std::uint64_t at = memory_.end();
    while (memory_.end() < at + bytes) memory_.put(std::uint64_t{0});
    memory_.poke(at + 8, bytes | 1);
    return at + kHead;
  }

  FakeMemory memory_;
  OcamlRuntime runtime_;
  std::uint64_t heap_ = 0;
};

TEST(OcamlParts, ATableHasTheSameClassWhereverTheReadingEnds) {
  const FakeTables fake;
  bool ended = false;
  const auto whole = fake.found(1 << 20, ended);
  ASSERT_FALSE(ended);
  std::multiset<RssClass> kinds;
  for (const auto& [begin, kind] : whole) kinds.insert(kind);
  EXPECT_EQ(kinds, (std::multiset{RssClass::kRuntimeTable, RssClass::kRuntimeTable,
                                  RssClass::kRememberedSet, RssClass::kChannel}));
  ended = true;
  for (int reads = 0; ended; ++reads) {
    for (const auto& [begin, kind] : fake.found(reads, ended)) {
      EXPECT_TRUE(whole.contains(begin) && whole.at(begin) == kind)
          << words_of(kind).key << " after " << reads << " reads";
    }
  }
}

}  // namespace
}  // namespace memprofd
