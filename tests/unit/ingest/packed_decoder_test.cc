// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/packed_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "daemon/ingest/decoder.h"
#include "tests/kit/packed_batch.h"

namespace memprofd {
namespace {

using Entries = std::vector<std::uint64_t>;

constexpr std::uint64_t kBase = PackedBatch::kBase;
constexpr std::uint64_t kMain = kBase + 0x100, kServe = kBase - 0x200, kLeaf = kBase + 0x300;
constexpr std::uint64_t kPlugin = 0x7fff'0000'1234;

class PackedDecoderTest : public testing::Test {
 protected:
  void begin(const PackedBatch& batch) {
    batch_ = batch;
    decoder_.begin(batch_.head, batch_.words);
  }
  Entries entries() {
    const CallstackView view = decoder_.callstack();
    return {view.entries.begin(), view.entries.end()};
  }

  PackedBatch batch_;
  PackedDecoder decoder_;
};

TEST_F(PackedDecoderTest, RecordsOfABlock) {
  begin(PackedBatch(5000, 40)
            .thread(77)
            .alloc(2, 3, 0, {kMain, kLeaf})
            .follow(10, MEMPROF_DEALLOC_MINOR, 0));
  const auto alloc = decoder_.next();
  ASSERT_TRUE(alloc);
  EXPECT_EQ(alloc->time_ns, 5000u + 2 * MEMPROF_PACKED_TIME_NS);
  EXPECT_EQ(alloc->sample_id, 41u);
  EXPECT_EQ(alloc->size_words, 4u);
  EXPECT_EQ(alloc->n_samples, 3u);
  EXPECT_EQ(MEMPROF_ORIGIN_TID(alloc->origin), 77u);
  EXPECT_EQ(MEMPROF_ORIGIN_KIND(alloc->origin), static_cast<unsigned>(MEMPROF_ALLOC_MINOR));
  EXPECT_EQ(entries(), (Entries{kLeaf, kMain}));
  const auto death = decoder_.next();
  ASSERT_TRUE(death);
  EXPECT_EQ(death->sample_id, 41u);
  EXPECT_EQ(MEMPROF_ORIGIN_KIND(death->origin), static_cast<unsigned>(MEMPROF_DEALLOC_MINOR));
  EXPECT_TRUE(valid_record(*alloc) && valid_record(*death));
  EXPECT_FALSE(decoder_.next());
}

TEST_F(PackedDecoderTest, CallstacksShareOuterFrames) {
  begin(PackedBatch()
            .alloc(0, 1, 0, {kMain, kServe, kLeaf})
            .alloc(1, 1, 1, {kPlugin})
            .alloc(2, 1, 2, {})
            .alloc(3, 1, 1, {kServe, kLeaf}));
  ASSERT_TRUE(decoder_.next());
  const StackHash first = decoder_.stack_hash();
  EXPECT_EQ(entries(), (Entries{kLeaf, kServe, kMain}));
  ASSERT_TRUE(decoder_.next());
  const StackHash second = decoder_.stack_hash();
  EXPECT_EQ(entries(), (Entries{kPlugin, kMain}));
  ASSERT_TRUE(decoder_.next());
  EXPECT_EQ(decoder_.stack_hash(), second);
  ASSERT_TRUE(decoder_.next());
  EXPECT_EQ(decoder_.stack_hash(), first);
  EXPECT_NE(first, second);
}

TEST_F(PackedDecoderTest, RecursionIsARunButNotWithADebuginfo) {
  begin(PackedBatch()
            .alloc(0, 1, 0, {kMain, kServe, kServe, kServe})
            .alloc(0, 1, 4, {}, MEMPROF_PACKED_DEBUGINFO)
            .alloc(0, 1, 0, {}));
  ASSERT_TRUE(decoder_.next());
  const StackHash plain = decoder_.stack_hash();
  EXPECT_EQ(entries(), (Entries{kServe, MEMPROF_RUN_MARK | 2, kMain}));
  EXPECT_EQ(decoder_.callstack().alloc_idx, -1);
  EXPECT_EQ(decoder_.callstack().n_frames, 4u);
  ASSERT_TRUE(decoder_.next());
  EXPECT_NE(decoder_.stack_hash(), plain);
  EXPECT_EQ(entries(), (Entries{kServe, kServe, MEMPROF_RUN_MARK | 1, kMain}));
  EXPECT_EQ(decoder_.callstack().alloc_idx, kDebuginfoIsInnermost);
  ASSERT_TRUE(decoder_.next());
  EXPECT_EQ(decoder_.stack_hash(), StackHash());
}

TEST_F(PackedDecoderTest, WideNumbers) {
  begin(PackedBatch(0, 128 * 7 + 3, 128)
            .words_of(
                {0, MEMPROF_ALLOC_MAJOR | MEMPROF_PACKED_WIDE | MEMPROF_PACKED_SOURCE(2), 1, 2, 9})
            .words_of({0, MEMPROF_PROMOTE | MEMPROF_PACKED_WIDE, 5, 6}));
  const auto alloc = decoder_.next();
  ASSERT_TRUE(alloc);
  EXPECT_EQ(alloc->size_words, 0x2'0000'0001u);
  EXPECT_EQ(alloc->n_samples, 9u);
  EXPECT_EQ(alloc->sample_id, 128u * 8 + 3);
  EXPECT_EQ(MEMPROF_ORIGIN_SOURCE(alloc->origin), static_cast<unsigned>(MEMPROF_SOURCE_CUSTOM));
  const auto promote = decoder_.next();
  ASSERT_TRUE(promote);
  EXPECT_EQ(promote->sample_id, 0x6'0000'0005u);
}

TEST_F(PackedDecoderTest, CountsOfDeepCallstacksAreWordsOfTheirOwn) {
  Entries frames;
  for (std::uint32_t i = 0; i < MEMPROF_PACKED_MOST_FRAMES; ++i) frames.push_back(kMain + 16 * i);
  const Entries outer(frames.begin(), frames.end() - 1);
  begin(PackedBatch()
            .alloc(0, 1, 0, {kMain})
            .deep(1, 1, 1, Entries(outer.begin() + 1, outer.end()))
            .deep(2, 1, outer.size(), {frames.back()})
            .deep(3, 1, outer.size(), {kLeaf, kServe})  // too many
            .alloc(4, 1, 0, {}));
  ASSERT_TRUE(decoder_.next());
  ASSERT_TRUE(decoder_.next());
  EXPECT_EQ(entries(), Entries(outer.rbegin(), outer.rend()));
  ASSERT_TRUE(decoder_.next());
  EXPECT_EQ(entries(), Entries(frames.rbegin(), frames.rend()));
  EXPECT_EQ(decoder_.callstack().n_frames, MEMPROF_PACKED_MOST_FRAMES);
  EXPECT_FALSE(decoder_.next());
}

TEST_F(PackedDecoderTest, EndsAtWhatMakesNoSense) {
  const PackedBatch cases[] = {
      PackedBatch().words_of({0}),                          // half a record
      PackedBatch().words_of({0, 0}),                       // no such kind
      PackedBatch().words_of({0, 7}),                       // likewise
      PackedBatch().words_of({0, MEMPROF_ALLOC_MINOR, 1}),  // no samples
      PackedBatch().alloc(0, 1, 1, {kMain}),                // shares with no callstack
      PackedBatch().alloc(0, 1, 0, {MEMPROF_RUN_MARK | kMain}),
      PackedBatch().words_of({0, MEMPROF_ALLOC_MINOR | MEMPROF_PACKED_NEW(2), 1, 1, 5}),
      PackedBatch().words_of(
          {0, MEMPROF_ALLOC_MINOR | MEMPROF_PACKED_NEW(1), 1, 1, MEMPROF_PACKED_FAR, 5}),
      PackedBatch().words_of({0, MEMPROF_PROMOTE | MEMPROF_PACKED_WIDE, 5}),
      PackedBatch().deep(0, 1, 0, Entries(MEMPROF_PACKED_MOST_FRAMES + 1, kMain)),
      PackedBatch().deep(0, 1, 1, {kMain}),
      PackedBatch().words_of({0, MEMPROF_ALLOC_MINOR | MEMPROF_PACKED_DEEP, 1, 1, 0}),
      PackedBatch().words_of({0, MEMPROF_ALLOC_MINOR | MEMPROF_PACKED_DEEP, 1, 1, 0, 0xffff'ffff}),
  };
  for (const PackedBatch& batch : cases) {
    begin(batch);
    EXPECT_FALSE(decoder_.next()) << &batch - cases;
  }
  begin(PackedBatch().alloc(0, 1, 0, Entries(MEMPROF_PACKED_FRAMES, kMain), MEMPROF_PACKED_CUT));
  ASSERT_TRUE(decoder_.next());
  EXPECT_TRUE(decoder_.callstack().truncated);
}

TEST_F(PackedDecoderTest, AnyWordsComeToAnEnd) {
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    PackedBatch batch;
    for (std::size_t n = random() % 60; n > 0; --n) {
      batch.words.push_back(random() % 2 ? random() : random() % 8 | (random() % 3) << 17);
    }
    begin(batch);
    std::size_t records = 0;
    while (const auto record = decoder_.next()) {
      ++records;
      ASSERT_LE(entries().size(), MEMPROF_PACKED_MOST_FRAMES);
    }
    ASSERT_LE(records, batch.words.size() / 2);
  }
}

}  // namespace
}  // namespace memprofd
