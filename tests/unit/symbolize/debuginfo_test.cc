// SPDX-License-Identifier: Apache-2.0
#include "daemon/symbolize/debuginfo.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kBase = 0x10000;

struct Packed {
  std::uint32_t line, start, end;
};

// A module's data in ocamlopt's layout: descriptors, then debuginfo, then names. Forward references
// are filled in once the address they refer to is known.
class Data {
 public:
  FakeMemory memory{kBase};

  // The offset word of each debuginfo is returned in `holes`.
  std::uint64_t descriptor(std::uint16_t flags, int live, int allocs,
                           std::vector<std::uint64_t>& holes) {
    memory.align(8);
    const std::uint64_t at = memory.put<std::uint64_t>(0x401000);
    memory.put<std::uint16_t>(0x20 | flags);
    memory.put(static_cast<std::uint16_t>(live));
    for (int i = 0; i < live; ++i) memory.put<std::uint16_t>(8);
    if ((flags & 2) != 0) memory.put(static_cast<std::uint8_t>(allocs));
    for (int i = 0; i < allocs; ++i) memory.put<std::uint8_t>(1);
    memory.align(4);
    for (int i = 0; i < std::max(allocs, 1); ++i) holes.push_back(memory.put<std::uint32_t>(0));
    return at;
  }
  void fill(std::uint64_t hole, std::uint64_t goal) {
    memory.poke(hole, static_cast<std::uint32_t>(goal - hole));
  }
  std::uint64_t name(const std::string& function, const std::string& file) {
    const std::uint64_t file_at = memory.put_string(file);
    memory.align(4);
    const std::uint64_t at = memory.end();
    memory.put(static_cast<std::int32_t>(file_at - at));
    memory.put_string(function);
    memory.align(4);
    return at;
  }
  // A chain, innermost first; each location refers to the name behind it.
  std::uint64_t debuginfo(const std::vector<std::pair<Packed, int>>& chain,
                          const std::vector<std::string>& functions) {
    memory.align(4);
    const std::uint64_t at = memory.end();
    for (std::size_t i = 0; i < chain.size(); ++i) {
      memory.put<std::uint64_t>(0);
    }
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const Packed& p = chain[i].first;
      const std::uint64_t where = at + 8 * i;
      const std::uint64_t name_at = name(functions[chain[i].second], "src/f.ml");
      const std::uint64_t next = i + 1 < chain.size() ? 1 : 0;
      const std::uint64_t word = std::uint64_t{p.line} << 44 | std::uint64_t{p.start} << 36 |
                                 std::uint64_t{p.end} << 26 | (name_at - where) | next;
      memory.poke(where, word);
    }
    return at;
  }
};

TEST(Debuginfo, DecodesPackedWords) {
  const std::uint64_t word = 0xFFFFFull << 44 | 0xABull << 36 | 0x2CDull << 26 | 0x123454 | 2 | 1;
  const PackedLocation packed = {static_cast<std::uint32_t>(word),
                                 static_cast<std::uint32_t>(word >> 32)};
  EXPECT_EQ(packed.line(LocationFormat::kLine), 0xFFFFFu);
  EXPECT_EQ(packed.start_column(LocationFormat::kLine), 0xABu);
  EXPECT_EQ(packed.end_column(LocationFormat::kLine), 0x2CDu);
  EXPECT_EQ(packed.name_offset(), 0x123454u);
  EXPECT_TRUE(packed.has_next());
}

TEST(Debuginfo, DecodesPackedWordsOfOcaml5) {
  constexpr auto kLines = LocationFormat::kLines;
  // 0 llllllllllll mmm aaaaaa bbbbbbb ooooooooo ffffffffffffffffffffffff k n
  const std::uint64_t word = 0xABCull << 51 | 5ull << 48 | 0x2Aull << 42 | 0x55ull << 35 |
                             0x1E3ull << 26 | 0x123454 | 2 | 1;
  const PackedLocation packed = {static_cast<std::uint32_t>(word),
                                 static_cast<std::uint32_t>(word >> 32)};
  EXPECT_FALSE(packed.has_more());
  EXPECT_EQ(packed.line(kLines), 0xABCu);
  EXPECT_EQ(packed.start_column(kLines), 0x2Au);
  EXPECT_EQ(packed.end_column(kLines), 0x55u + 0x1E3u);
  EXPECT_EQ(packed.name_offset(), 0x123454u);
  // 1 lllllllllllllllllll mmmmmmmmmmmmmmmmmm ffffffffffffffffffffffff k n
  const std::uint64_t large = 1ull << 63 | 0x5A5A5ull << 44 | 0x3FFFFull << 26 | 0x100 | 1;
  const PackedLocation more = {static_cast<std::uint32_t>(large),
                               static_cast<std::uint32_t>(large >> 32)};
  EXPECT_TRUE(more.has_more());
  EXPECT_EQ(more.line(kLines), 0x5A5A5u);
  EXPECT_TRUE(more.has_next());
}

TEST(Debuginfo, ReadsLargeNumbersOfOcaml5) {
  FakeMemory memory(kBase);
  memory.put<std::uint64_t>(1ull << 63 | 300'000ull << 44 | 16);  // the record follows
  memory.put<std::uint64_t>(0);
  memory.put<std::int32_t>(16);  // to the file's name
  memory.put<std::uint16_t>(700);
  memory.put<std::uint16_t>(12);
  memory.put<std::int32_t>(7000);
  for (const char c : {'M', '.', 'f', '\0', 'a', '.', 'm', 'l', '\0'}) memory.put<char>(c);
  const auto locations = read_debuginfo(memory, kBase, LocationFormat::kLines);
  ASSERT_EQ(locations.size(), 1u);
  EXPECT_EQ(locations[0], (SourceLocation{"M.f", "a.ml", 300'000, 700, 7000}));
  memory.truncate(22);
  EXPECT_TRUE(read_debuginfo(memory, kBase, LocationFormat::kLines).empty());
}

TEST(Debuginfo, ReadsOneLocation) {
  for (int live = 0; live < 4; ++live) {
    Data data;
    std::vector<std::uint64_t> holes;
    const std::uint64_t descriptor = data.descriptor(1, live, 0, holes);
    const std::uint64_t info = data.debuginfo({{{12, 4, 30}, 0}}, {"M.f"});
    data.fill(holes[0], info);
    const auto found = find_debuginfo(data.memory, descriptor, -1);
    ASSERT_TRUE(found.has_value()) << live;
    EXPECT_EQ(*found, info);
    const auto locations = read_debuginfo(data.memory, *found, LocationFormat::kLine);
    ASSERT_EQ(locations.size(), 1u);
    EXPECT_EQ(locations[0], (SourceLocation{"M.f", "src/f.ml", 12, 4, 30}));
  }
}

TEST(Debuginfo, InlinedChainIsInnermostFirst) {
  Data data;
  std::vector<std::uint64_t> holes;
  const std::uint64_t descriptor = data.descriptor(1, 1, 0, holes);
  data.fill(holes[0], data.debuginfo({{{3, 1, 2}, 0}, {{20, 5, 9}, 1}, {{900, 255, 1023}, 2}},
                                     {"M.inner", "M.middle", "Dune__exe__Main.outer.(fun)"}));
  const auto locations = read_debuginfo(
      data.memory, find_debuginfo(data.memory, descriptor, -1).value_or(0), LocationFormat::kLine);
  ASSERT_EQ(locations.size(), 3u);
  EXPECT_EQ(locations[0].function, "M.inner");
  EXPECT_EQ(locations[0].line, 3u);
  EXPECT_EQ(locations[1].function, "M.middle");
  EXPECT_EQ(locations[2],
            (SourceLocation{"Dune__exe__Main.outer.(fun)", "src/f.ml", 900, 255, 1023}));
}

TEST(Debuginfo, AllocIndexSelectsAmongCombinedAllocations) {
  Data data;
  std::vector<std::uint64_t> holes;
  const std::uint64_t descriptor = data.descriptor(3, 2, 4, holes);
  ASSERT_EQ(holes.size(), 4u);
  // The first has none.
  std::vector<std::uint64_t> infos = {0};
  for (std::uint32_t line = 1; line < 4; ++line) {
    infos.push_back(data.debuginfo({{{line, 0, 1}, 0}}, {"M.f"}));
    data.fill(holes[line], infos.back());
  }
  EXPECT_EQ(find_debuginfo(data.memory, descriptor, 1), infos[1]);
  EXPECT_EQ(find_debuginfo(data.memory, descriptor, 2), infos[2]);
  EXPECT_EQ(find_debuginfo(data.memory, descriptor, 3), infos[3]);
  EXPECT_EQ(find_debuginfo(data.memory, descriptor, -1), infos[1]) << "first that has one";
  EXPECT_EQ(find_debuginfo(data.memory, descriptor, 0), infos[1]) << "as the runtime prints it";
  EXPECT_EQ(find_debuginfo(data.memory, descriptor, 4), infos[1]);
  EXPECT_EQ(find_debuginfo(data.memory, descriptor, 1 << 30), infos[1]);
}

TEST(Debuginfo, DescriptorsWithoutAny) {
  Data data;
  std::vector<std::uint64_t> holes;
  const std::uint64_t plain = data.descriptor(0, 1, 0, holes);
  const std::uint64_t allocs_only = data.descriptor(2, 1, 2, holes);
  const std::uint64_t chunk_end = data.descriptor(0xFFFF, 0, 0, holes);
  const std::uint64_t all_zero = data.descriptor(3, 1, 2, holes);
  const std::uint64_t no_allocs = data.descriptor(3, 1, 0, holes);
  for (const std::uint64_t d : {plain, allocs_only, chunk_end, all_zero, no_allocs}) {
    EXPECT_FALSE(find_debuginfo(data.memory, d, -1).has_value()) << d;
    EXPECT_FALSE(find_debuginfo(data.memory, d, 0).has_value()) << d;
  }
  EXPECT_FALSE(find_debuginfo(data.memory, 0x999999, -1).has_value());
}

TEST(Debuginfo, LongNamesAreReadInPieces) {
  Data data;
  const std::string function = "M." + std::string(300, 'f');
  const std::uint64_t info = data.debuginfo({{{1, 0, 0}, 0}}, {function});
  const auto locations = read_debuginfo(data.memory, info, LocationFormat::kLine);
  ASSERT_EQ(locations.size(), 1u);
  EXPECT_EQ(locations[0].function, function);
}

TEST(Debuginfo, AnUnterminatedNameIsNotALocation) {
  Data data;
  const std::uint64_t info = data.debuginfo({{{1, 0, 0}, 0}}, {"M.function"});
  const std::uint64_t size = data.memory.end() - kBase;
  data.memory.truncate(size - 4);
  EXPECT_TRUE(read_debuginfo(data.memory, info, LocationFormat::kLine).empty());
  Data endless;
  const std::uint64_t long_info = endless.debuginfo({{{1, 0, 0}, 0}}, {std::string(5000, 'x')});
  EXPECT_TRUE(read_debuginfo(endless.memory, long_info, LocationFormat::kLine).empty());
}

// A chain whose every word announces another one ends at the cap.
TEST(Debuginfo, EndlessChainEnds) {
  Data data;
  const std::uint64_t info =
      data.debuginfo(std::vector<std::pair<Packed, int>>(2000, {{1, 0, 0}, 0}), {"M.f"});
  EXPECT_EQ(read_debuginfo(data.memory, info, LocationFormat::kLine).size(), 256u);
}

TEST(Debuginfo, TotalOnCorruptMemory) {
  Data good;
  std::vector<std::uint64_t> holes;
  const std::uint64_t descriptor = good.descriptor(3, 2, 3, holes);
  for (const std::uint64_t hole : holes) {
    good.fill(hole, good.debuginfo({{{1, 2, 3}, 0}, {{4, 5, 6}, 0}}, {"M.f"}));
  }
  const std::uint64_t size = good.memory.end() - kBase;
  std::mt19937_64 random(3);
  int answered = 0;
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    FakeMemory memory = good.memory;
    if (round % 3 == 0) memory.truncate(12 + random() % (size - 12));
    for (int k = 0; k < 3; ++k) {
      const std::uint64_t at = kBase + 8 + random() % (size - 8);
      if (at < memory.end()) memory.poke(at, static_cast<std::uint8_t>(random()));
    }
    const auto info = find_debuginfo(memory, descriptor, static_cast<int>(random() % 5) - 1);
    const bool some = info && !read_debuginfo(memory, *info, LocationFormat::kLine).empty();
    (some ? answered : refused) += 1;
  }
  EXPECT_GT(answered, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace memprofd
