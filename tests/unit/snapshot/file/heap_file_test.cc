// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/file/pointer_guess.h"
#include "daemon/snapshot/heap_graph.h"
#include "tests/kit/full_length.h"
#include "tests/kit/heap_file.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Blocks of all kinds and sizes, one of them larger than one read. Their fields point to blocks,
// into blocks, to free blocks and out of the heap.
class RandomHeap : public FakeChunks {
 public:
  explicit RandomHeap(unsigned seed) : random_(seed) {
    for (int chunk = 0; chunk < 3; ++chunk) {
      std::vector<std::vector<std::uint64_t>> blocks;
      for (int i = 0; i < 400; ++i) blocks.push_back(block(size(), tag(), colour()));
      if (chunk == 1) blocks.push_back(block(70'000, 0));
      chunks_.push_back(put_chunk(joined(blocks)));
      put(std::vector<std::uint64_t>(random_() % 3'000));
    }
    put_minor_heap(joined({block(3, 0), block(40, 7), block(2, 252)}));
    link();
  }

  std::mt19937& random() { return random_; }
  std::vector<std::uint64_t> headers() const {
    std::vector<std::uint64_t> found;
    (void)walk_heap(memory, *map(), [&](const HeapRegion&, const BlockPart& part) {
      if (part.first == 0) found.push_back(part.address);
    });
    return found;
  }

 private:
  std::uint64_t size() { return random_() % 20 == 0 ? 30 + random_() % 200 : 1 + random_() % 9; }
  unsigned tag() {
    static constexpr unsigned kTags[] = {0, 0, 0, 1, 17, kClosureTag, 250, 251, 252, kCustomTag};
    return kTags[random_() % std::size(kTags)];
  }
  std::uint64_t colour() { return random_() % 8 == 0 ? kBlue : kBlack; }
  std::uint64_t value(const std::vector<std::uint64_t>& blocks) {
    switch (random_() % 6) {
      case 0:
        return random_() | 1;
      case 1:
        return blocks[random_() % blocks.size()] + 8 * (random_() % 20);
      case 2:
        return random_() * 8;
      default:
        return blocks[random_() % blocks.size()] + 8;
    }
  }
  void link() {
    const auto blocks = headers();
    std::vector<std::uint64_t> places;
    (void)walk_heap(memory, *map(), [&](const HeapRegion&, const BlockPart& part) {
      for (std::size_t i = 0; i < part.fields.size(); ++i) {
        places.push_back(part.address + 8 * (part.first + i + 1));
      }
    });
    for (const std::uint64_t place : places) memory.poke(place, value(blocks));
  }

  std::mt19937 random_;
  std::vector<std::uint64_t> chunks_;
};

void expect_equal(const HeapImage& image, const HeapGraph& graph) {
  ASSERT_EQ(graph.words.size(), image.blocks());
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    ASSERT_EQ(graph.words[block], image.shape(block).words);
    ASSERT_EQ(graph.tags[block], image.shape(block).tag);
  }
  EXPECT_EQ(graph.edges.first, image.edges.first);
  EXPECT_EQ(graph.edges.to, image.edges.to);
  EXPECT_EQ(image.edges.to.size(), image.fields.size());
}

TEST(HeapFile, HasAllBlocksAndPointers) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const RandomHeap heap(seed);
    const auto map = heap.map();
    ASSERT_TRUE(map.ok()) << map.status();
    const auto bytes = heap_file_of(heap.memory, *map);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto image = image_of(*bytes);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_TRUE(image->info.complete);
    expect_equal(*image, *build_heap_graph(heap.memory, *map));
    ASSERT_THAT(image->young, SizeIs(1));
    EXPECT_EQ(image->blocks(), image->young[0].end);
    EXPECT_EQ(image->blocks() - 3, image->young[0].first);
  }
}

TEST(HeapFile, HasTheInterfacesOfTheProgram) {
  const RandomHeap heap(1);
  InterfaceDigests interfaces;
  for (int i = 0; i < 20'000; ++i) {  // more than a piece has room for
    interfaces.emplace("Unit_" + std::to_string(i),
                       std::string(kDigestBytes, static_cast<char>(i)));
  }
  const auto bytes = heap_file_of(
      heap.memory, *heap.map(), [&](HeapFileWriter& writer) { writer.add_interfaces(interfaces); });
  const auto image = image_of(*bytes);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(interfaces, image->interfaces);
  const auto damaged = image_of(changed(*bytes, [](PieceKind& kind, std::string& payload) {
    if (kind == PieceKind::kInterfaces) payload += payload;  // each twice
    return true;
  }));
  EXPECT_TRUE(absl::IsInvalidArgument(damaged.status())) << damaged.status();
}

TEST(HeapFile, HasTheAssertionsOfTheProgram) {
  FakePools heap;
  const std::uint64_t pool = heap.put_pool(3, {block(3, 0), block(1, 5), block(2, 0)});
  const std::uint64_t first = pool + 4 * 8 + 8, second = first + 4 * 8;  // slots of four words
  const HeapAssertion unreachable{.name = "session", .not_due = 3, .unchecked = 70'000};
  const HeapAssertion region{.kind = AssertionKind::kRegion,
                             .name = "load",
                             .is_whole = false,
                             .max_bytes = 1 << 20,
                             .begin_age_ns = 5'000'000,
                             .end_age_ns = 1'000'000};
  const auto bytes = heap_file_of(heap.memory, *heap.map(), [&](HeapFileWriter& writer) {
    writer.add_assertion(unreachable);
    writer.add_assertion(region);
    writer.add_mark(0, second, AssertionMark::Until::kNow, 0);
    writer.add_mark(0, first, AssertionMark::Until::kOther, second);
    writer.add_mark(0, first, AssertionMark::Until::kOther, second + 8);
    writer.add_mark(0, second + 8, AssertionMark::Until::kNow, 0);
  });
  const auto image = image_of(*bytes);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->assertions, ElementsAre(unreachable, region));
  ASSERT_THAT(image->marks, SizeIs(3)) << "what is no block is not marked";
  EXPECT_EQ(1u, image->marks[0].block);
  EXPECT_EQ(0u, image->marks[1].block);
  EXPECT_EQ(AssertionMark::Until::kOther, image->marks[1].until);
  EXPECT_EQ(1u, image->marks[1].other);
  EXPECT_EQ(AssertionMark::Until::kOtherIsGone, image->marks[2].until);
  const auto damaged = image_of(changed(*bytes, [](PieceKind& kind, std::string& payload) {
    if (kind == PieceKind::kMarks) payload[0] = 2;  // no such assertion
    return true;
  }));
  EXPECT_TRUE(absl::IsInvalidArgument(damaged.status())) << damaged.status();
}

TEST(HeapFile, HasTheHeapsOfOCaml5) {
  FakePools heap;
  const std::uint64_t pool = heap.put_pool(3, {block(3, 0), block(1, 5), block(2, 0, 0x200)});
  const std::uint64_t large = heap.put_large(block(200, 0));
  heap.memory.poke(large + 16 + 8, pool + 4 * 8 + 8);
  heap.memory.poke(large + 16 + 8 * 200, large + 24);
  const auto map = heap.map();
  const auto image = image_of(*heap_file_of(heap.memory, *map));
  ASSERT_TRUE(image.ok()) << image.status();
  expect_equal(*image, *build_heap_graph(heap.memory, *map));
  ASSERT_EQ(3u, image->blocks());
  EXPECT_THAT(image->edges.to, ElementsAre(0, 2));
  EXPECT_THAT(image->fields, ElementsAre(0, 199));
  EXPECT_EQ(1u, image->dead.blocks(0, 2));
  EXPECT_EQ(1020u, image->free.blocks(0, 4));
}

// Blocks allocated in turn are adjacent, in pools of their size.
TEST(HeapFile, PointersToBlocksThatWereMadeInTurnAreShort) {
  FakePools heap;
  constexpr std::uint64_t kBlocks = 1000;
  const std::vector texts(kBlocks, block(3, 252));
  const std::uint64_t text = heap.put_pool(3, texts) + 4 * 8 + 8;
  heap.put(std::vector<std::uint64_t>(100'000));
  std::vector<std::vector<std::uint64_t>> records;
  for (std::uint64_t i = 0; i < kBlocks; ++i)
    records.push_back(block(1, 0, kBlack, text + i * 4 * 8));
  heap.put_pool(1, records);
  const auto bytes = heap_file_of(heap.memory, *heap.map());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_LT(bytes->size(), kBlocks * (1 + 2) + 500) << "a byte for a shape, one for a pointer";
  const auto image = image_of(*bytes);
  ASSERT_TRUE(image.ok()) << image.status();
  expect_equal(*image, *build_heap_graph(heap.memory, *heap.map()));
}

// Files before version 5 have all of them in this form.
TEST(HeapFile, UnpredictablePointersAreStored) {
  FakeChunks heap;
  std::mt19937 random(1);
  constexpr std::uint64_t kFields = 32;
  std::vector<std::uint64_t> words = block(1, 0);
  std::set<std::uint32_t> masks;
  while (masks.size() * kFields / 2 < 5 * std::uint64_t{kMaxGuesses} / 4) {
    const auto mask = static_cast<std::uint32_t>(random() | random());
    if (!masks.insert(mask).second) continue;
    std::vector<std::uint64_t> record = block(kFields, 0);
    for (unsigned i = 0; i < kFields; ++i) record[i + 1] = mask >> i & 1 ? 2 : 1;
    words.insert(words.end(), record.begin(), record.end());
  }
  const std::uint64_t at = heap.put_chunk(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == 2) heap.memory.poke(at + 8 * i, at + 8);
  }
  const auto image = image_of(*heap_file_of(heap.memory, *heap.map()));
  ASSERT_TRUE(image.ok()) << image.status();
  expect_equal(*image, *build_heap_graph(heap.memory, *heap.map()));
}

TEST(HeapFile, HasBlocksHeldByFibersByFrame) {
  FakePools heap;
  const std::uint64_t kept = heap.put_pool(3, {block(3, 0)}) + 4 * 8 + 8;
  const std::uint64_t waits = heap.put_pool(
      2, {block(2, kContinuationTag, 0, kept | 1), block(2, kContinuationTag, 0, kept | 1),
          block(2, kContinuationTag)});  // the last one has been continued
  ASSERT_LT(kept, waits);
  const auto image = image_of(*heap_file_of(heap.memory, *heap.map()));
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_EQ(4u, image->blocks());
  EXPECT_THAT(image->edges.to, ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(image->fields, ElementsAre(2, 2, 3, 2, 2, 3));
  std::vector<std::uint32_t> first;
  for (std::size_t i = 0; i < image->edges.first.size(); ++i)
    first.push_back(image->edges.first[i]);
  EXPECT_THAT(first, ElementsAre(0, 0, 3, 6, 6));
  const BlockShape& shape = image->shape(1);
  EXPECT_EQ(image->shape_of[1], image->shape_of[2]);
  EXPECT_EQ("Fiber.wait", image->texts[shape.name]);
  ASSERT_EQ(0u, shape.site);
  ASSERT_THAT(image->sites, SizeIs(1));
  ASSERT_THAT(image->sites[0], SizeIs(2));
  EXPECT_EQ("Fiber.run", image->locations[image->sites[0][1]].function);
  EXPECT_EQ(BlockShape::kNoSite, image->shape(0).site);
  EXPECT_EQ(BlockShape::kNoSite, image->shape(3).site);
}

// Any block can have outside memory, from reachable chunks, in addition to that of its shape.
TEST(HeapFile, HasNativeMemoryHeldByBlocks) {
  FakeChunks heap;
  const std::uint64_t chunk = heap.put_chunk(
      joined({block(1, kCustomTag, kBlack, 7), block(1, 0), block(2, kAbstractTag)}));
  const auto bytes =
      heap_file_of(heap.memory, *heap.map(), nullptr, image_info(), [&](HeapFileWriter& writer) {
        writer.add_outside(chunk, {1000, 900});
        writer.add_outside(chunk + 8 * 4, {5, 0});
        writer.add_outside(chunk + 8 * 5, {77, 77});  // there is no block
      });
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto image = image_of(*bytes);
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_EQ(image->blocks(), 3u);
  EXPECT_EQ(image->outside_bytes(0), 700u + 1000u);
  EXPECT_EQ(image->chunks_of(0).resident, 900u);
  EXPECT_EQ(image->outside_bytes(1), 0u);
  EXPECT_EQ(image->outside_bytes(2), 5u);
  EXPECT_THAT(image->chunk_bytes, SizeIs(2));
}

TEST(HeapFile, TakesNoMoreHoldersThanBlocksAreAllowed) {
  FakeChunks heap;
  const std::uint64_t chunk = heap.put_chunk(block(1, 0));
  const auto bytes = heap_file_of(heap.memory, *heap.map(), [&](HeapFileWriter& writer) {
    for (int i = 0; i < 3; ++i) writer.add_outside(chunk, {1, 1});
  });
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(image_of(*bytes, {.blocks = 3}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(image_of(*bytes, {.blocks = 2}).status()));
}

// The memory of a program with ephemerons: each has the next one, data, keys.
TEST(HeapFile, HasWhatEphemeronsKeepAndDoNotKeep) {
  FakeChunks heap;
  constexpr std::uint64_t kNone = 0x77778;
  std::vector<std::uint64_t> keyless = block(2, kAbstractTag, kBlack, kNone);
  const std::uint64_t chunk = heap.put_chunk(
      joined({block(4, kAbstractTag, kBlack, kNone), block(1, 0), block(1, 0), block(1, 0),
              block(3, kAbstractTag, kBlack, kNone), keyless, block(70'000, kAbstractTag)}));
  const auto value = [chunk](std::uint64_t words) { return chunk + 8 * words + 8; };
  const std::uint64_t key = value(5), data = value(7), lost = value(9);
  heap.memory.poke(chunk + 8 * 1, value(0));  // which the runtime's list leads to
  heap.memory.poke(chunk + 8 * 2, data);
  heap.memory.poke(chunk + 8 * 3, key);
  heap.memory.poke(chunk + 8 * 14, lost);  // of a weak array
  heap.memory.poke(chunk + 8 * 16, key);   // of an abstract block that is in no list
  const auto image = image_of(*heap_file_of(heap.memory, *heap.map(), [&](HeapFileWriter& writer) {
    writer.know({.blocks = {chunk, chunk + 8 * 11}, .nothing = kNone});
    writer.add_root(value(0), {});
    writer.add_root(value(11), {});
    writer.add_root(key, {});
  }));
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_EQ(7u, image->blocks());
  EXPECT_EQ("ephemeron", image->texts[image->shape(0).name]);
  EXPECT_EQ("weak array", image->texts[image->shape(4).name]);
  EXPECT_EQ(0u, image->shape(5).name);
  EXPECT_THAT(image->edges.to, ElementsAre(2));
  EXPECT_THAT(image->fields, ElementsAre(1));
  EXPECT_THAT(image->weak, ElementsAre(WeakPointer{0, 1}, WeakPointer{4, 3}));
}

TEST(HeapFile, HasAllElementsOfALongWeakArray) {
  FakeChunks heap;
  const std::uint64_t chunk =
      heap.put_chunk(joined({block(1, 0), block(200'000, kAbstractTag, kBlack, 0)}));
  for (std::uint64_t i = 0; i < 200'000; i += 1000)
    heap.memory.poke(chunk + 8 * (i + 5), chunk + 8);
  const auto image = image_of(*heap_file_of(heap.memory, *heap.map(), [&](HeapFileWriter& writer) {
    writer.know({.blocks = {chunk + 16}, .nothing = 0});
  }));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->weak, SizeIs(200));
  EXPECT_THAT(image->edges.to, IsEmpty());
}

TEST(HeapFile, HasFactsBesideTheBlocks) {
  FakeChunks heap;
  const std::uint64_t chunk =
      heap.put_chunk(joined({block(3, 0), block(2, kCustomTag, kBlack, 7), block(4, 0, kBlue),
                             block(2, kClosureTag, kBlack, 9)}));
  const RootName global{.kind = RootKind::kGlobal, .owner = "Cache", .field = 4};
  const RootName frame{.kind = RootKind::kStack,
                       .owner = "thread 4242",
                       .place = {.function = "Server.loop", .file = "server.ml", .line = 12}};
  const auto bytes = heap_file_of(heap.memory, *heap.map(), [&](HeapFileWriter& writer) {
    writer.add_root(chunk + 8, global);
    writer.add_root(chunk + 8, frame);
    writer.add_root(chunk + 4 * 8 + 8, global);
    writer.add_root(chunk - 4096, global);       // outside
    writer.add_root(chunk + 7 * 8 + 8, global);  // free
    const auto site = writer.add_site({frame.place, {.function = "Main", .line = 3}});
    writer.add_sample(chunk + 8, 77, 3, site, 2'000'999);
    writer.add_sample(0, 78, 1, site);
    writer.add_sample(0, 79, 1, site, 0);
  });
  const auto image = image_of(*bytes);
  ASSERT_TRUE(image.ok()) << image.status();
  const ImageInfo told = image_info();
  EXPECT_EQ(told.program, image->info.program);
  EXPECT_EQ(told.pid, image->info.pid);
  EXPECT_EQ(told.ocaml_version, image->info.ocaml_version);
  EXPECT_EQ(told.unix_ns, image->info.unix_ns);
  EXPECT_EQ(told.pause_ns, image->info.pause_ns);
  EXPECT_EQ(told.sampling_rate, image->info.sampling_rate);
  EXPECT_EQ(told.heap_words, image->info.heap_words);
  EXPECT_THAT(image->root_names, ElementsAre(global, frame));
  ASSERT_THAT(image->roots, SizeIs(3));
  EXPECT_EQ(0u, image->roots[0].block);
  EXPECT_EQ(1u, image->roots[1].name);
  EXPECT_EQ(1u, image->roots[2].block);
  EXPECT_EQ("_custom7", image->texts[image->shape(1).name]);
  EXPECT_EQ(700u, image->shape(1).outside_bytes);
  EXPECT_EQ("Code.f9", image->texts[image->shape(2).name]);
  EXPECT_EQ(0u, image->shape(0).name);
  EXPECT_EQ(told.longest_wait_ns, image->info.longest_wait_ns);
  ASSERT_THAT(image->sampled, SizeIs(3));
  EXPECT_EQ(2'000'000u, image->sampled[0].age_ns);
  EXPECT_EQ(SampledBlock::kNoAge, image->sampled[1].age_ns);
  EXPECT_EQ(0u, image->sampled[2].age_ns);
  EXPECT_EQ(0u, image->sampled[0].block);
  EXPECT_EQ(3u, image->sampled[0].samples);
  EXPECT_EQ(77u, image->sampled[0].sample_id);
  EXPECT_EQ(HeapImage::kNoBlock, image->sampled[1].block);
  ASSERT_THAT(image->sites, SizeIs(1));
  EXPECT_EQ(frame.place, image->locations[image->sites[0][0]]);
  EXPECT_EQ(1u, image->free.blocks(0, 5));
}

TEST(HeapFile, IsReadOnlyUpToTheLimit) {
  const std::string bytes = some_heap_file(7, 100);
  EXPECT_TRUE(image_of(bytes, {.blocks = 101, .pointers = 100}).ok());
  for (const ImageLimits& limits :
       {ImageLimits{.blocks = 100}, ImageLimits{.pointers = 99}, ImageLimits{.blocks = 0}}) {
    const auto image = image_of(bytes, limits);
    EXPECT_EQ(absl::StatusCode::kResourceExhausted, image.status().code());
    EXPECT_THAT(std::string(image.status().message()), HasSubstr("has more than"));
  }
}

TEST(HeapFile, ItsHeadIsReadAlone) {
  const TempDir folder;
  const std::string bytes = some_heap_file(7);
  const auto info = read_heap_info(folder.write("whole", bytes));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(7, info->unix_ns);
  EXPECT_EQ(image_info().program, info->program);
  for (const std::size_t cut : {0, 3, 12, 20}) {
    EXPECT_EQ(absl::StatusCode::kInvalidArgument,
              read_heap_info(folder.write("cut", bytes.substr(0, cut))).status().code());
  }
}

TEST(HeapFile, HasNoContents) {
  FakeChunks heap;
  std::vector<std::uint64_t> secret = block(3, 252);
  std::memcpy(&secret[1], "hunter2-hunter2", 15);
  std::vector<std::uint64_t> numbers = block(8, 0, kBlack, 0x4141414141414141);
  heap.put_chunk(joined({secret, numbers}));
  const auto bytes = heap_file_of(heap.memory, *heap.map());
  EXPECT_THAT(*bytes, testing::Not(HasSubstr("hunter2")));
  EXPECT_THAT(*bytes, testing::Not(HasSubstr("AAAA")));
}

TEST(HeapFile, ATruncatedOneHasWhatWasWritten) {
  const RandomHeap heap(1);
  const auto bytes = heap_file_of(heap.memory, *heap.map());
  const auto whole = image_of(*bytes);
  std::uint32_t blocks = 0;
  for (std::size_t size = 0; size < bytes->size(); size += 1 + size / 9) {
    const auto image = image_of(std::string_view(*bytes).substr(0, size));
    if (!image.ok()) {
      EXPECT_LT(size, 100u) << image.status();
      EXPECT_EQ(absl::StatusCode::kInvalidArgument, image.status().code());
      continue;
    }
    EXPECT_FALSE(image->info.complete);
    EXPECT_GE(image->blocks(), blocks);
    blocks = image->blocks();
    EXPECT_LE(blocks, whole->blocks());
  }
}

TEST(HeapFile, AFlippedBitEndsIt) {
  const RandomHeap heap(2);
  const auto bytes = heap_file_of(heap.memory, *heap.map());
  std::mt19937 random(3);
  for (int i = 0; i < rounds_of(200, 5'000); ++i) {
    std::string damaged = *bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    const auto image = image_of(damaged);
    if (image.ok()) {
      EXPECT_FALSE(image->info.complete);
    }
  }
}

std::string file_with_a_sample() {
  FakeChunks heap;
  const std::uint64_t chunk = heap.put_chunk(joined({block(3, 0)}));
  return *heap_file_of(heap.memory, *heap.map(), [&](HeapFileWriter& writer) {
    writer.add_sample(chunk + 8, 1, 1, writer.add_site({}), 7'000);
  });
}

TEST(HeapFile, ThePreviousVersionHasNoAges) {
  FileBytesWriter wait;
  wait.put(image_info().longest_wait_ns);
  std::string bytes = changed(file_with_a_sample(), [&](PieceKind kind, std::string& payload) {
    if (kind == PieceKind::kHead) payload.resize(payload.size() - wait.size());
    return kind != PieceKind::kAges;
  });
  bytes[kHeapFileMagic.size()] = 2;
  const auto image = image_of(bytes);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_TRUE(image->info.complete);
  EXPECT_EQ(image_info().heap_words, image->info.heap_words);
  EXPECT_EQ(0u, image->info.longest_wait_ns);
  ASSERT_THAT(image->sampled, SizeIs(1));
  EXPECT_EQ(SampledBlock::kNoAge, image->sampled[0].age_ns);
}

TEST(HeapFile, Version6HasNoAssertions) {
  std::string bytes = changed(file_with_a_sample(), [](PieceKind kind, std::string&) {
    return kind != PieceKind::kAssertions && kind != PieceKind::kMarks;
  });
  bytes[kHeapFileMagic.size()] = 6;
  const auto image = image_of(bytes);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_TRUE(image->info.complete);
  EXPECT_THAT(image->sampled, SizeIs(1));
  EXPECT_THAT(image->assertions, IsEmpty());
  EXPECT_THAT(image->marks, IsEmpty());
}

TEST(HeapFile, HasNoMoreAgesThanSamples) {
  const std::string bytes = file_with_a_sample();
  const auto with_ages = [&](std::string_view ages) {
    return image_of(changed(bytes, [&](PieceKind kind, std::string& payload) {
      if (kind == PieceKind::kAges) payload = ages;
      return true;
    }));
  };
  const auto image = with_ages("\x08");
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(7'000u, image->sampled[0].age_ns);
  EXPECT_THAT(std::string(with_ages("\x08\x08").status().message()), HasSubstr("is damaged"));
  EXPECT_THAT(std::string(with_ages("\xff\xff\xff\xff\xff\xff\xff\xff\x7f").status().message()),
              HasSubstr("is damaged"));
}

TEST(HeapFile, RefusesOtherFiles) {
  EXPECT_THAT(std::string(image_of("").status().message()), HasSubstr("is not a heap snapshot"));
  EXPECT_THAT(std::string(image_of("MPRFHEAX____________").status().message()),
              HasSubstr("is not a heap snapshot"));
  const auto newer = image_of(std::string("MPRFHEAP") + std::string("\x09\0\0\0", 4));
  EXPECT_THAT(std::string(newer.status().message()), HasSubstr("has version 9"));
  EXPECT_FALSE(read_heap_image("/dev/null").ok());
}

TEST(HeapFile, StopsWhenItsSinkDoes) {
  const RandomHeap heap(4);
  int pieces = 0;
  HeapFileWriter writer(
      [&](std::string_view) {
        ++pieces;
        return pieces < 2 ? absl::OkStatus() : absl::AbortedError("enough");
      },
      {});
  const auto map = heap.map();
  writer.begin(image_info(), *map);
  HeapCensus census;
  ASSERT_TRUE(walk_heap(heap.memory, *map, writer).ok());
  EXPECT_EQ("enough", writer.end(census).message());
  EXPECT_EQ(2, pieces);
}

// Small blocks have as many shapes as patterns of pointers.
TEST(HeapFile, KeepsFewShapes) {
  FakeChunks heap;
  std::vector<std::vector<std::uint64_t>> blocks(80'000, block(20, 0));
  const std::uint64_t chunk = heap.put_chunk(joined(blocks));
  for (std::uint64_t i = 0; i < blocks.size(); ++i) {
    for (std::uint64_t field = 0; field < 20; ++field) {
      if ((i >> field & 1) != 0) heap.memory.poke(chunk + 8 * (21 * i + field + 1), chunk + 8);
    }
  }
  const auto map = heap.map();
  const auto image = image_of(*heap_file_of(heap.memory, *map));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->shapes, SizeIs(1));
  expect_equal(*image, *build_heap_graph(heap.memory, *map));
}

}  // namespace
}  // namespace memprofd
