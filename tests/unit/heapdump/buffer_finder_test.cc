// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/buffer_finder.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t integer(std::uint64_t value) { return value << 1 | 1; }

class Buffers : public testing::Test {
 protected:
  // Pads strings like the runtime: the last byte counts the unused bytes of the last word.
  std::uint64_t string(std::uint64_t length) {
    std::vector<std::uint64_t> words(length / 8 + 1);
    words.back() = (7 - length % 8) << 56;
    return memory_.put_block(kStringTag, words);
  }
  std::uint64_t block(const std::vector<std::uint64_t>& fields, unsigned tag = 0) {
    return memory_.put_block(tag, fields);
  }
  BlockPart part(const std::vector<std::uint64_t>& fields, unsigned tag = 0) {
    fields_ = fields;
    return {.header = fields.size() << 10 | tag, .words = fields.size() + 1, .fields = fields_};
  }
  std::optional<std::uint64_t> old(const std::vector<std::uint64_t>& fields, unsigned tag = 0) {
    return BufferFinder(memory_, false).used(part(fields, tag));
  }
  std::optional<std::uint64_t> inner(const std::vector<std::uint64_t>& fields) {
    return BufferFinder(memory_, true).used(part(fields));
  }

  FakeMemory memory_{0x10000};
  std::vector<std::uint64_t> fields_;
};

TEST_F(Buffers, OfOCaml4) {
  const std::uint64_t bytes = string(1000), first = string(16);
  EXPECT_EQ(77u, old({bytes, integer(77), integer(1000), first}));
  EXPECT_EQ(1000u, old({bytes, integer(1000), integer(1000), first})) << "full";
  EXPECT_EQ(0u, old({first, integer(0), integer(16), first}));
  EXPECT_FALSE(old({bytes, integer(1001), integer(1000), first})) << "more than it has";
  EXPECT_FALSE(old({bytes, integer(77), integer(999), first})) << "another length";
  EXPECT_FALSE(old({bytes, integer(77), integer(1008), first})) << "one of more words";
  EXPECT_FALSE(old({bytes, integer(77), integer(1000), integer(16)}));
  EXPECT_FALSE(old({bytes, ~std::uint64_t{0}, integer(1000), first})) << "negative";
  EXPECT_FALSE(old({bytes, integer(77), bytes, first}));
  EXPECT_FALSE(old({bytes, integer(77), integer(1000), first}, 1)) << "another constructor";
  EXPECT_FALSE(old({block({1, 2, 3}), integer(1), integer(16), first})) << "no string";
  EXPECT_FALSE(old({0x8000, integer(77), integer(1000), first})) << "not mapped";
  EXPECT_FALSE(inner({bytes, integer(77), integer(1000), first}));
}

TEST_F(Buffers, Since52) {
  const std::uint64_t bytes = string(1000), first = string(16);
  const std::uint64_t both = block({bytes, integer(1000)});
  EXPECT_EQ(77u, inner({both, integer(77), first}));
  EXPECT_FALSE(inner({both, integer(1001), first}));
  EXPECT_FALSE(inner({block({bytes, integer(999)}), integer(77), first}));
  EXPECT_FALSE(inner({block({bytes, integer(1000)}, 1), integer(77), first}));
  EXPECT_FALSE(inner({block({bytes, integer(1000), 1}), integer(77), first}));
  EXPECT_FALSE(inner({bytes, integer(77), first})) << "a bucket of a Hashtbl";
  EXPECT_FALSE(inner({both, integer(77), integer(16)}));
  EXPECT_FALSE(old({both, integer(77), first}));
}

TEST_F(Buffers, PartsAndDeadBlocksAreNotBuffers) {
  const std::vector<std::uint64_t> fields{string(16), integer(1), integer(16), string(16)};
  BufferFinder finder(memory_, false);
  BlockPart one = part(fields);
  EXPECT_TRUE(finder.used(one));
  one.first = 4;
  EXPECT_FALSE(finder.used(one));
  one.first = 0;
  one.state = BlockState::kDead;
  EXPECT_FALSE(finder.used(one));
}

TEST_F(Buffers, SearchesAreBounded) {
  BufferFinder finder(memory_, false);
  const BlockPart none = part({0x8000, integer(1), integer(16), 0x8000});
  for (std::uint64_t i = 0; i < BufferFinder::kMaxSearches; ++i) finder.used(none);
  const std::vector<std::uint64_t> good{string(16), integer(1), integer(16), string(16)};
  EXPECT_FALSE(finder.used(part(good)));
}

}  // namespace
}  // namespace memprofd
