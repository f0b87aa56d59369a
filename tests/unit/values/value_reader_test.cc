// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/value_reader.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/values/page_cache.h"
#include "daemon/values/value_graph.h"
#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kNil = 1;
constexpr std::uint64_t integer(std::int64_t n) { return static_cast<std::uint64_t>(n) << 1 | 1; }

class ValueReaderTest : public ::testing::Test {
 protected:
  // Address of a block.
  std::uint64_t block(unsigned tag, const std::vector<std::uint64_t>& fields) {
    return memory_.put_block(tag, fields);
  }
  std::uint64_t string(const std::string& text) {
    std::string bytes = text;
    const std::size_t padding = 7 - text.size() % 8;
    bytes.append(padding, '\0');
    bytes.push_back(static_cast<char>(padding));
    std::vector<std::uint64_t> words(bytes.size() / 8);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return block(252, words);
  }
  std::uint64_t list(int cells, std::uint64_t tail = kNil) {
    for (int i = cells; i > 0; --i) tail = block(0, {integer(i), tail});
    return tail;
  }
  // A table of that many bindings, all in the first buckets.
  std::uint64_t table(std::uint64_t size, std::uint64_t bindings, std::uint64_t buckets) {
    std::vector<std::uint64_t> chains(buckets, kNil);
    for (std::uint64_t i = 0; i < bindings; ++i) {
      chains[i % 2] = block(0, {integer(7), integer(8), chains[i % 2]});
    }
    const std::uint64_t data = block(0, chains);
    return block(0, {integer(static_cast<std::int64_t>(size)), data, integer(0), integer(16)});
  }
  Value read(std::uint64_t word, bool with_contents = false) {
    const FunctionNames names = [](std::uint64_t code) {
      return code == 0x10 ? "caml_curry2" : code == 0x20 ? "M.f" : "?";
    };
    ValueReader reader(memory_, names, with_contents);
    Value value = reader.read(word);
    is_torn_ = reader.is_torn();
    return value;
  }

  FakeMemory memory_{0x10000};
  bool is_torn_ = false;
};

TEST_F(ValueReaderTest, Scalars) {
  EXPECT_EQ(read(integer(-5)).integer, -5);
  EXPECT_EQ(read(block(253, {std::bit_cast<std::uint64_t>(2.5)})).number, 2.5);
  EXPECT_EQ(read(block(254, {1, 2, 3})).size, 3u);
  EXPECT_EQ(read(block(246, {integer(1)})).kind, ValueKind::kLazy);
  EXPECT_EQ(read(block(250, {integer(4)})).integer, 4) << "forced";
  EXPECT_EQ(read(block(247, {0x20, 0})).text, "M.f");
  EXPECT_EQ(read(block(247, {0x10, 0, 0x20})).text, "M.f") << "of two arguments";
  EXPECT_EQ(read(block(0, {})).size, 0u) << "an empty array";
  EXPECT_EQ(read(block(3, {integer(1), integer(2)})).tag, 3u);
}

TEST_F(ValueReaderTest, StringsWithAndWithoutContents) {
  for (const std::string text : {"", "a", "1234567", "12345678", "a longer one"}) {
    const std::uint64_t at = string(text);
    EXPECT_EQ(read(at).size, text.size());
    EXPECT_EQ(read(at).text, "");
    EXPECT_EQ(read(at, true).text, text);
  }
  const Value cut = read(string(std::string(1000, 'x')), true);
  EXPECT_EQ(cut.text.size(), ValueReader::kMaxText);
  EXPECT_TRUE(cut.is_cut);
}

TEST_F(ValueReaderTest, CustomBlocksHaveTheirIdentifier) {
  const std::uint64_t name = memory_.put_string("_j");
  memory_.put_string(std::string(64, 'x'));  // what lies behind
  memory_.align(8);
  const std::uint64_t operations = memory_.put(name);
  const Value value = read(block(255, {operations, static_cast<std::uint64_t>(-3)}));
  EXPECT_EQ(value.text, "_j");
  EXPECT_EQ(value.integer, -3);
}

TEST_F(ValueReaderTest, Lists) {
  EXPECT_EQ(read(list(1)).kind, ValueKind::kBlock) << "may be a pair";
  const Value value = read(list(20));
  EXPECT_EQ(value.kind, ValueKind::kList);
  EXPECT_EQ(value.size, 20u);
  ASSERT_EQ(value.fields.size(), ValueReader::kMaxFields);
  EXPECT_EQ(value.fields[2].integer, 3);
  EXPECT_TRUE(value.is_cut);
  EXPECT_EQ(read(list(3, integer(5))).kind, ValueKind::kBlock) << "ends in 5";
  const Value longer = read(list(30'000));
  EXPECT_EQ(longer.kind, ValueKind::kList);
  EXPECT_TRUE(longer.is_longer);
}

TEST_F(ValueReaderTest, ACyclicListEnds) {
  const std::uint64_t first = list(5);
  memory_.poke(first + 8, first);
  EXPECT_TRUE(read(first).is_longer);
}

TEST_F(ValueReaderTest, Tables) {
  const Value value = read(table(5, 5, 8));
  ASSERT_EQ(value.kind, ValueKind::kTable);
  EXPECT_EQ(value.size, 5u);
  EXPECT_EQ(value.buckets, 8u);
  EXPECT_EQ(value.empty_buckets, 6u);
  EXPECT_EQ(value.longest_chain, 3u);
  EXPECT_TRUE(value.chains_counted);
  EXPECT_EQ(value.chains, (std::vector<std::uint64_t>{6, 0, 1, 1}));
  EXPECT_EQ(read(table(100, 100, 8)).chains[Value::kCountedChains], 2u) << "of 50";
  EXPECT_EQ(read(table(0, 0, 8)).kind, ValueKind::kTable);
  EXPECT_EQ(read(table(5, 5, 6)).kind, ValueKind::kBlock) << "no power of two";
  EXPECT_FALSE(is_torn_);
  EXPECT_EQ(read(table(6, 5, 8)).kind, ValueKind::kBlock);
  EXPECT_TRUE(is_torn_) << "a binding is missing";
  const Value large = read(table(1'000'000, 100, 8));
  EXPECT_EQ(large.kind, ValueKind::kTable);
  EXPECT_FALSE(large.chains_counted);
}

TEST_F(ValueReaderTest, Queues) {
  const std::uint64_t last = block(0, {integer(3), kNil});
  const std::uint64_t first = block(0, {integer(1), block(0, {integer(2), last})});
  EXPECT_EQ(read(block(0, {integer(3), first, last})).kind, ValueKind::kQueue);
  EXPECT_FALSE(is_torn_);
  EXPECT_EQ(read(block(0, {integer(2), first, last})).kind, ValueKind::kBlock);
  EXPECT_TRUE(is_torn_) << "one is being added";
  EXPECT_EQ(read(block(0, {integer(3), first, integer(9)})).kind, ValueKind::kBlock);
  EXPECT_FALSE(is_torn_) << "is none";
}

TEST_F(ValueReaderTest, TreesAreBalanced) {
  const auto set = [&](std::uint64_t l, std::uint64_t r, int h) {
    return block(0, {l, integer(1), r, integer(h)});
  };
  const std::uint64_t leaf = set(kNil, kNil, 1);
  EXPECT_EQ(read(set(leaf, kNil, 2)).kind, ValueKind::kTree);
  EXPECT_EQ(read(set(leaf, leaf, 2)).size, 3u);
  EXPECT_EQ(read(set(leaf, leaf, 3)).kind, ValueKind::kBlock);
  const std::uint64_t map = block(0, {kNil, integer(1), integer(2), kNil, integer(1)});
  EXPECT_EQ(read(block(0, {map, integer(1), integer(2), kNil, integer(2)})).size, 2u);
}

TEST_F(ValueReaderTest, AValueThatIsNotABlockIsReported) {
  for (const std::uint64_t word : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{0x10004},
                                   ~std::uint64_t{1}, std::uint64_t{1} << 60}) {
    EXPECT_EQ(read(word).kind, ValueKind::kUnread) << word;
  }
}

// With any memory there is a small answer.
TEST_F(ValueReaderTest, TotalOnGarbage) {
  std::mt19937_64 random(7);
  std::set<ValueKind> seen;
  for (int round = 0; round < 300; ++round) {
    memory_.truncate(0);
    for (int i = 0; i < 2000; ++i) {
      switch (random() % 4) {
        case 0:
          memory_.put(integer(static_cast<std::int64_t>(random() % 5)));
          break;
        case 1:
          memory_.put<std::uint64_t>(random() % 6 << 10 | (random() % 3 == 0 ? random() % 256 : 0));
          break;
        case 2:
          memory_.put(random());
          break;
        default:
          memory_.put(memory_.base() + random() % 2000 * 8);
      }
    }
    for (int i = 0; i < 100; ++i) {
      const Value value = read(memory_.base() + random() % 2000 * 8, true);
      seen.insert(value.kind);
      EXPECT_LE(value.fields.size(), ValueReader::kMaxFields);
      EXPECT_LE(value.text.size(), ValueReader::kMaxText);
    }
  }
  EXPECT_GT(seen.size(), 8u) << "garbage of all kinds";
}

TEST(PageCache, ReadsAPageOnceUntilItForgets) {
  FakeMemory memory(0x10000);
  for (int i = 0; i < 2048; ++i) memory.put<std::uint64_t>(static_cast<std::uint64_t>(i));
  std::uint64_t word = 0;
  PageCache cache(memory);
  EXPECT_FALSE(cache.read_value(0x10000, word).ok());
  EXPECT_TRUE(cache.missed());
  cache.forget();
  EXPECT_FALSE(cache.missed());
  const Mapping mapping{.begin = 0x10000, .end = 0x14000, .readable = true};
  cache.set_mappings(std::span(&mapping, 1), {});
  for (int i = 0; i < 1024; ++i) {
    ASSERT_TRUE(cache.read_value(0x10000 + 8u * static_cast<unsigned>(i), word).ok());
    EXPECT_EQ(word, static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(memory.reads, 2);
  memory.poke<std::uint64_t>(0x10000, 77);
  ASSERT_TRUE(cache.read_value(0x10000, word).ok());
  EXPECT_EQ(word, 0u);
  cache.forget();
  ASSERT_TRUE(cache.read_value(0x10000, word).ok());
  EXPECT_EQ(word, 77u);
  std::uint64_t pair[2];
  ASSERT_TRUE(cache.read(0x10000 + 4096 - 8, std::as_writable_bytes(std::span(pair))).ok());
  EXPECT_EQ(pair[1], 512u) << "over the border of two pages";
  EXPECT_FALSE(cache.read_value(0x50000, word).ok());
  EXPECT_FALSE(cache.read_value(~0ull - 3, word).ok());
}

TEST(PageCache, TouchesNoFileButTheProgram) {
  FakeMemory memory(0x10000);
  for (int i = 0; i < 2048; ++i) memory.put<std::uint64_t>(1);
  PageCache cache(memory);
  const Mapping mappings[] = {{.begin = 0x10000, .end = 0x11000, .inode = 7, .readable = true},
                              {.begin = 0x11000, .end = 0x12000, .readable = true},
                              {.begin = 0x12000, .end = 0x13000, .inode = 8, .readable = true},
                              {.begin = 0x13000, .end = 0x14000}};
  cache.set_mappings(mappings, {0x10000, 0x11000});
  std::uint64_t word = 0;
  EXPECT_TRUE(cache.read_value(0x10008, word).ok()) << "the program's file";
  EXPECT_TRUE(cache.read_value(0x11ff8, word).ok()) << "memory of its own";
  EXPECT_FALSE(cache.missed());
  EXPECT_FALSE(cache.read_value(0x12000, word).ok()) << "another file";
  EXPECT_FALSE(cache.read_value(0x13000, word).ok()) << "may not be read";
  EXPECT_TRUE(cache.missed());
  EXPECT_EQ(memory.reads, 2);
}

TEST_F(ValueReaderTest, AGraphHasEachBlockOnce) {
  const std::uint64_t shared = block(0, {integer(5), kNil});
  const std::uint64_t root = block(0, {shared, shared, string("abc"), integer(-1)});
  memory_.poke(shared + 8, root);  // it goes round
  const FunctionNames names = [](std::uint64_t) { return ""; };
  ValueReader reader(memory_, names, true);
  const ValueGraph graph = read_graph(reader, root, 100);
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_FALSE(graph.is_cut);
  const GraphNode& first = graph.nodes[0];
  ASSERT_EQ(first.fields.size(), 4u);
  EXPECT_EQ(first.fields[0].node, 2u);
  EXPECT_EQ(first.fields[1].node, 2u);
  EXPECT_EQ(graph.nodes[first.fields[2].node - 1].value.text, "abc");
  EXPECT_EQ(first.fields[3].value.integer, -1);
  EXPECT_EQ(first.references, 1u);
  EXPECT_EQ(graph.nodes[1].references, 2u);
  EXPECT_EQ(graph.nodes[1].fields[1].node, 1u);
  EXPECT_TRUE(graph.same_as(read_graph(reader, root, 100)));
  EXPECT_FALSE(graph.same_as(read_graph(reader, shared, 100)));
  EXPECT_TRUE(read_graph(reader, integer(3), 100).nodes.empty());
}

TEST_F(ValueReaderTest, AGraphIsBounded) {
  const FunctionNames names = [](std::uint64_t) { return ""; };
  ValueReader reader(memory_, names, false);
  const ValueGraph graph = read_graph(reader, list(1000), 10);
  EXPECT_EQ(graph.nodes.size(), 10u);
  EXPECT_TRUE(graph.is_cut);
  EXPECT_EQ(graph.nodes[9].fields[1].node, 0u);
  EXPECT_EQ(graph.nodes[9].fields[1].value.why, WhyUnread::kDeep);
  const ValueGraph wide =
      read_graph(reader, block(0, std::vector<std::uint64_t>(1000, integer(1))), 10);
  EXPECT_EQ(wide.nodes[0].fields.size(), kMaxGraphFields);
  EXPECT_TRUE(wide.nodes[0].value.is_cut);
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 64; ++i) {
    const std::vector<std::uint64_t> leaves(64, block(0, std::vector<std::uint64_t>(64, kNil)));
    blocks.push_back(block(0, leaves));
    for (int j = 0; j < 64; ++j) {
      memory_.poke(blocks.back() + 8 * j, block(0, std::vector<std::uint64_t>(64, kNil)));
    }
  }
  const ValueGraph full = read_graph(reader, block(0, blocks), kMaxGraphNodes);
  std::size_t fields = 0;
  for (const GraphNode& node : full.nodes) fields += node.fields.size();
  EXPECT_EQ(fields, kMaxFieldsOfGraph);
  EXPECT_TRUE(full.is_cut);
}

}  // namespace
}  // namespace memprofd
