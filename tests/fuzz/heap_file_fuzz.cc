// SPDX-License-Identifier: Apache-2.0
// Files of heap snapshots: every index of the image is valid. The input lacks the checksums of its
// pieces, because no mutation would pass them.
#include "daemon/snapshot/file/heap_file_format.h"

#include <random>

#include "daemon/snapshot/answers/waste.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/heap_file.h"

namespace memprofd::fuzz {
namespace {

// Inserts the checksums of everything that looks like a piece.
void put_checksums(std::string& bytes) {
  std::size_t at = kHeapFileStartBytes;
  while (at + kPieceHeadBytes <= bytes.size()) {
    std::uint32_t size = 0;
    std::memcpy(&size, &bytes[at + 4], sizeof size);
    if (size > bytes.size() - at - kPieceHeadBytes) break;
    const std::string_view all(bytes);
    const std::uint32_t sum =
        piece_checksum(all.substr(at, 8), all.substr(at + kPieceHeadBytes, size));
    std::memcpy(&bytes[at + 8], &sum, sizeof sum);
    at += kPieceHeadBytes + size;
  }
}

void check_edges(const HeapImage& image) {
  require(image.edges.first.size() == image.shape_of.size() + 1, "a block without edges");
  require(image.edges.first.back() == image.edges.to.size(), "edges of no block");
  require(image.edges.to.size() == image.fields.size(), "an edge without a field");
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    require(image.shape_of[block] < image.shapes.size(), "a shape that is none");
    const std::uint64_t first = image.edges.first[block];
    require(first <= image.edges.first[block + 1], "edges that go back");
    for (std::uint64_t i = first + 1; i < image.edges.first[block + 1]; ++i) {
      require(image.fields[i - 1] <= image.fields[i], "fields that fall");
    }
  }
  for (const std::uint32_t block : image.edges.to) {
    require(block < image.blocks(), "an edge to no block");
  }
}

void check_names(const HeapImage& image) {
  for (const BlockShape& shape : image.shapes) {
    require(shape.name < image.texts.size() && shape.words > 0, "a bad shape");
    require(shape.site < image.sites.size() || shape.site == BlockShape::kNoSite, "a bad fiber");
  }
  for (const ImageRoot& root : image.roots) {
    require(root.block < image.blocks() && root.name < image.root_names.size(), "a bad root");
  }
  for (const SampledBlock& sample : image.sampled) {
    require(sample.block < image.blocks() || sample.block == HeapImage::kNoBlock, "a bad sample");
    require(sample.samples > 0 && sample.site < image.sites.size(), "a sample of nothing");
  }
  for (const auto& site : image.sites) {
    for (const std::uint32_t place : site) require(place < image.locations.size(), "a bad site");
  }
  std::uint32_t end = 0;
  for (const BlockRange& range : image.young) {
    require(end <= range.first && range.first < range.end && range.end <= image.blocks(),
            "bad young blocks");
    end = range.end;
  }
}

void check_contents(const HeapImage& image) {
  for (const BlockContents& of : image.contents) {
    require(of.block < image.blocks() && image.bytes_of(of).size() == of.kept, "bad contents");
    require(of.kept <= of.length && of.length <= image.shape(of.block).words * 8, "long contents");
  }
  for (const BlockFingerprint& of : image.fingerprints) {
    require(of.block < image.blocks(), "a fingerprint of no block");
  }
  for (const BufferUse& of : image.buffers) require(of.block < image.blocks(), "a bad Buffer");
  const ShortestPaths paths(image);
  for (const WasteRow& row : find_waste(image, paths)) {
    require(row.words_to_win <= row.words, "more to win than there is");
  }
}

bool read(std::string_view pieces) {
  std::string bytes(pieces);
  put_checksums(bytes);
  const auto image = image_of(bytes);
  if (!image.ok()) return false;
  check_edges(*image);
  check_names(*image);
  check_contents(*image);
  return true;
}

std::string seed_file(unsigned seed) {
  std::mt19937 random(seed);
  FakeChunks heap;
  std::vector<std::vector<std::uint64_t>> blocks;
  for (int i = 0; i < 60; ++i) {
    if (i % 20 == 0) blocks.push_back(block(2, kContinuationTag));
    blocks.push_back(block(1 + random() % 50,
                           random() % 2 == 0   ? 0
                           : random() % 2 == 0 ? kClosureTag
                                               : kStringTag,
                           random() % 6 == 0 ? kBlue : kBlack));
  }
  const std::uint64_t chunk = heap.put_chunk(joined(blocks));
  for (std::uint64_t i = 0; i < 300; ++i) {
    heap.memory.poke(chunk + 8 * (random() % 500), chunk + 8 * (random() % 500));
  }
  std::uint64_t at = chunk;  // headers again
  for (const auto& one : blocks) {
    heap.memory.poke(at, one[0]);
    if (tag_of(one[0]) == kContinuationTag) heap.memory.poke(at + 8, (chunk + 8) | 1);
    at += 8 * one.size();
  }
  const HeapContents kept[] = {HeapContents::kNone, HeapContents::kFingerprints,
                               HeapContents::kContents};
  return *heap_file_of(heap.memory, *heap.map(), [&](HeapFileWriter& writer) {
    writer.keep(ContentsWriter(kept[seed % 3], {1, 2}));
    const Location place{.function = "Server.loop", .file = "server.ml", .line = seed};
    for (std::uint32_t i = 0; i < 20; ++i) {
      writer.add_root(chunk + 8 * (random() % 500),
                      {.kind = RootKind::kStack, .owner = "thread", .field = i, .place = place});
    }
    const auto site = writer.add_site({place, place});
    writer.add_sample(chunk + 8, 5, 2, site);
    writer.add_sample(0, 6, 1, site);
  });
}

std::vector<std::string> seeds() {
  std::vector<std::string> files;
  for (unsigned i = 0; i < 6; ++i) files.push_back(seed_file(i));
  return files;
}

const Add added("heap_file", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
