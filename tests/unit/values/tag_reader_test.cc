// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/tag_reader.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <ios>
#include <vector>

#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kNil = 1;
constexpr std::uint64_t kNone = 0x5008;  // what an empty place holds; not of this memory
constexpr AddressRange kImage{0x400000, 0x500000};

class TagReaderTest : public ::testing::Test {
 protected:
  std::uint64_t block(unsigned tag, const std::vector<std::uint64_t>& fields) {
    return memory_.put_block(tag, fields);
  }
  std::uint64_t weak(std::vector<std::uint64_t> places) {
    places.insert(places.begin(), {kNil, kNone});
    return block(251, places);
  }
  std::uint64_t store(const std::vector<std::uint64_t>& arrays, std::uint64_t next) {
    return block(0, {block(0, {block(0, arrays), 7}), next});
  }
  std::uint64_t tag(std::uint64_t stores) { return block(0, {block(0, {stores}), 9}); }
  Value read(std::uint64_t root) { return read_tag(memory_, kImage, root, kNone); }

  FakeMemory memory_{0x10000};
};

TEST_F(TagReaderTest, CountsWhatIsThereAndWhatItHoldsOnce) {
  const std::uint64_t shared = block(0, {3, kNil, 5});               // 4 words
  const std::uint64_t one = block(0, {shared, 0x400010});            // 3, and a constant
  const std::uint64_t two = block(0, {block(252, {0x18}), shared});  // 3, and a string of 2
  memory_.poke(shared + 8, two);                                     // it goes round
  const std::uint64_t first = store({weak({one, kNone, two}), weak({kNone, one})}, kNil);
  const std::uint64_t root = tag(store({weak({0x400010, kNone})}, first));
  const Value found = read(root);
  EXPECT_EQ(found.kind, ValueKind::kTag);
  EXPECT_EQ(found.size, 4u) << "one twice, a constant once";
  EXPECT_EQ(found.bytes, 8u * (4 + 3 + 3 + 2));
  EXPECT_FALSE(found.is_longer || found.is_more_memory);
  const Value none = read(tag(kNil));
  EXPECT_EQ(none.kind, ValueKind::kTag) << "nothing was marked yet";
  EXPECT_EQ(none.size, 0u);
}

TEST_F(TagReaderTest, AFunctionWithinAnotherIsThatOne) {
  const std::uint64_t closure = block(247, {0x400020, 5, 3 << 10 | 249, 0x400030, 7, 9});
  EXPECT_EQ(read(tag(store({weak({closure + 24, closure})}, kNil))).bytes, 8u * 7);
}

TEST_F(TagReaderTest, OtherBlocksAreNotRead) {
  for (const std::uint64_t root :
       {std::uint64_t{5}, std::uint64_t{0}, block(0, {3}), block(251, {block(0, {kNil})}),
        tag(block(0, {3, kNil})), tag(block(0, {block(0, {kNone}), 0x99990}))}) {
    const Value found = read(root);
    EXPECT_TRUE(found.kind == ValueKind::kUnread || found.is_longer) << std::hex << root;
  }
  const Value no_weak = read(tag(store({block(0, {kNone, kNone, 3})}, kNil)));
  EXPECT_TRUE(no_weak.is_longer);
}

TEST_F(TagReaderTest, IsBounded) {
  std::uint64_t stores = block(0, {block(0, {block(0, {}), 7}), kNil});
  memory_.poke(stores + 8, stores);
  EXPECT_TRUE(read(tag(stores)).is_longer) << "a list of stores that goes round";
  const std::uint64_t places = weak(std::vector<std::uint64_t>(1000, kNone));
  const Value many = read(tag(store(std::vector<std::uint64_t>(2000, places), kNil)));
  EXPECT_TRUE(many.is_longer) << "two million places";
  std::uint64_t list = kNil;
  for (std::size_t i = 0; i < kMaxMarkedBlocks + 5; ++i) list = block(0, {kNil, list});
  const Value large = read(tag(store({weak({list})}, kNil)));
  EXPECT_TRUE(large.is_more_memory);
  EXPECT_EQ(large.bytes, kMaxMarkedBlocks * 24);
  const Value counted = read_tag(memory_, kImage, tag(store({weak({list, list})}, kNil)), kNone, 0);
  EXPECT_EQ(counted.size, 2u);
  EXPECT_TRUE(counted.is_more_memory && counted.bytes == 0) << "no block is looked at";
  const std::uint64_t wide = block(0, std::vector<std::uint64_t>(kMaxMarkedWords + 1, kNil));
  EXPECT_TRUE(read(tag(store({weak({wide})}, kNil))).is_more_memory);
  // A weak array of which only the first words are there.
  memory_.put<std::uint64_t>(std::uint64_t{1} << 50 | 251);
  const std::uint64_t endless = memory_.end();
  EXPECT_TRUE(read(tag(store({endless}, kNil))).is_longer);
}

}  // namespace
}  // namespace memprofd
