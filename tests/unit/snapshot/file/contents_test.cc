// SPDX-License-Identifier: Apache-2.0
// Contents and fingerprints in heap files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/file/contents_writer.h"
#include "tests/kit/heap_file.h"

namespace memprofd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr Fingerprint::Key kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

// Pads strings like the runtime: to whole words, with the padding's length in the last byte.
std::vector<std::uint64_t> string_block(std::string text) {
  const std::size_t words = text.size() / 8 + 1;
  const std::size_t padding = words * 8 - text.size() - 1;
  text.resize(words * 8);
  text.back() = static_cast<char>(padding);
  std::vector<std::uint64_t> result = block(words, kStringTag);
  std::memcpy(&result[1], text.data(), text.size());
  return result;
}

std::vector<std::uint64_t> floats_block(std::vector<double> values) {
  std::vector<std::uint64_t> result = block(values.size(), kFloatArrayTag);
  std::memcpy(&result[1], values.data(), values.size() * sizeof(double));
  return result;
}

absl::StatusOr<std::string> file_with(HeapContents kept,
                                      const std::vector<std::vector<std::uint64_t>>& blocks,
                                      const Fingerprint::Key& key = kKey) {
  FakeChunks heap;
  heap.put_chunk(joined(blocks));
  return heap_file_of(
      heap.memory, *heap.map(),
      [&](HeapFileWriter& writer) { writer.keep(ContentsWriter(kept, key)); }, image_info(),
      nullptr, kept == HeapContents::kNone ? kWhole : kWholeContents);
}

std::vector<std::string> kept_of(const HeapImage& image) {
  std::vector<std::string> kept;
  for (const BlockContents& of : image.contents) kept.emplace_back(image.bytes_of(of));
  return kept;
}

// From the reference implementation: the first 8 and 16 bytes counted up from 0.
TEST(FingerprintTest, IsSipHash) {
  Fingerprint none(kKey), eight(kKey);
  EXPECT_EQ(0x726fdb47dd0e0e31u, none.end());
  eight.add(0x0706050403020100);
  EXPECT_EQ(0x93f5f5799a932462u, eight.end());
  Fingerprint sixteen(kKey);
  sixteen.add(0x0706050403020100);
  sixteen.add(0x0f0e0d0c0b0a0908);
  EXPECT_EQ(0x3f2acc7f57c29bdbu, sixteen.end());
}

TEST(FingerprintTest, KeysDiffer) {
  const auto one = random_key(), other = random_key();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(*one, *other);
}

TEST(HeapContentsTest, ExistOnRequest) {
  const std::vector<std::vector<std::uint64_t>> blocks = {block(2, 0),
                                                          string_block("hunter2"),
                                                          string_block(""),
                                                          string_block("eight by"),
                                                          floats_block({1.5, -2}),
                                                          block(1, kFloatTag)};
  const auto image = image_of(*file_with(HeapContents::kContents, blocks));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(kept_of(*image), ElementsAre("hunter2", "", "eight by", SizeIs(16)));
  EXPECT_THAT(image->fingerprints, IsEmpty());
  EXPECT_EQ(1u, image->contents[0].block);
  EXPECT_EQ(7u, image->contents[0].length);
  double last = 0;
  std::memcpy(&last, image->bytes_of(image->contents[3]).data() + 8, 8);
  EXPECT_EQ(-2, last);
  for (const HeapContents kept : {HeapContents::kNone, HeapContents::kFingerprints}) {
    const auto bytes = file_with(kept, blocks);
    EXPECT_THAT(*bytes, Not(HasSubstr("hunter2")));
    EXPECT_THAT(image_of(*bytes)->contents, IsEmpty());
  }
}

TEST(HeapContentsTest, FingerprintsShowWhichStringsAreEqual) {
  const std::vector<std::vector<std::uint64_t>> blocks = {
      string_block("same"), block(2, 0), string_block("same"), string_block("some")};
  const auto bytes = file_with(HeapContents::kFingerprints, blocks);
  const auto image = image_of(*bytes);
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_THAT(image->fingerprints, SizeIs(3));
  EXPECT_EQ(2u, image->fingerprints[1].block);
  EXPECT_EQ(image->fingerprints[0].value, image->fingerprints[1].value);
  EXPECT_NE(image->fingerprints[0].value, image->fingerprints[2].value);
  const auto other = image_of(*file_with(HeapContents::kFingerprints, blocks, {1, 2}));
  EXPECT_NE(image->fingerprints[0].value, other->fingerprints[0].value);
}

// The heap is read in windows that are smaller than such strings.
TEST(HeapContentsTest, PartOfALongStringIsKept) {
  const std::string text(2'000'000, 'x'), other = text + "y";
  const std::vector<std::vector<std::uint64_t>> blocks = {
      string_block(text), string_block(text), string_block(other), string_block("short")};
  const auto image = image_of(*file_with(HeapContents::kContents, blocks));
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_THAT(image->contents, SizeIs(4));
  EXPECT_EQ(text.size(), image->contents[0].length);
  EXPECT_EQ(kMaxContentBytes, image->contents[0].kept);
  EXPECT_EQ("short", image->bytes_of(image->contents[3]));
  ASSERT_THAT(image->fingerprints, SizeIs(3)) << "of those that are not kept whole";
  EXPECT_EQ(image->fingerprints[0].value, image->fingerprints[1].value);
  EXPECT_NE(image->fingerprints[0].value, image->fingerprints[2].value);
}

TEST(HeapContentsTest, HowMuchOfABufferIsInUse) {
  FakeChunks heap;
  heap.put_chunk(joined({block(2, 0), string_block("text"), block(4, 0)}));
  const auto buffers = [&](HeapContents kept) {
    return image_of(*heap_file_of(
                        heap.memory, *heap.map(),
                        [&](HeapFileWriter& writer) { writer.keep(ContentsWriter(kept, kKey)); },
                        image_info(), [](HeapFileWriter& writer) { writer.add_buffer(1000); }))
        ->buffers;
  };
  for (const HeapContents kept : {HeapContents::kFingerprints, HeapContents::kContents}) {
    const auto found = buffers(kept);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(2u, found[0].block);
    EXPECT_EQ(1000u, found[0].used);
  }
  EXPECT_THAT(buffers(HeapContents::kNone), IsEmpty());
}

TEST(HeapContentsTest, ComeFromStringsAndFloatsOnly) {
  const std::string good = *file_with(HeapContents::kContents, {block(2, 0), string_block("abc")});
  const auto with = [&](PieceKind wanted, std::string_view payload) {
    return image_of(changed(good,
                            [&](PieceKind& kind, std::string& of_piece) {
                              if (kind == PieceKind::kContents) {
                                kind = wanted;
                                of_piece = payload;
                              }
                              return true;
                            }))
        .status();
  };
  using namespace std::string_view_literals;
  EXPECT_TRUE(with(PieceKind::kContents, "\x01\x03\x01z"sv).ok());
  EXPECT_TRUE(with(PieceKind::kContents, "\x09\x03\x01z"sv).ok()) << "it is no block: dropped";
  EXPECT_FALSE(with(PieceKind::kContents, "\x00\x03\x01z"sv).ok()) << "of no string";
  EXPECT_FALSE(with(PieceKind::kContents, "\x01\x00\x01z"sv).ok()) << "more than it has";
  EXPECT_FALSE(with(PieceKind::kContents, "\x01\x30\x01z"sv).ok()) << "longer than the block";
  EXPECT_FALSE(with(PieceKind::kContents, "\x01\x01\x01z\x00\x01\x01z"sv).ok()) << "twice";
  EXPECT_FALSE(with(PieceKind::kFingerprints, "\x00________"sv).ok()) << "of no string";
  EXPECT_FALSE(with(PieceKind::kFingerprints, "\x01____"sv).ok()) << "too short";
  EXPECT_TRUE(with(PieceKind::kBuffers, "\x00\x05"sv).ok());
  EXPECT_FALSE(with(PieceKind::kBuffers, "\x01\x05"sv).ok()) << "of a string";
  EXPECT_FALSE(with(PieceKind::kBuffers, "\x00"sv).ok()) << "too short";
}

}  // namespace
}  // namespace memprofd
