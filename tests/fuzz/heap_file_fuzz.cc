// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes to the reader of heap files and checks that the image it makes of them
// keeps to what heap_image.h says. The input is pieces without checksums, which are put in: else
// no mutation would get past them.
//
//   clang++ -std=c++20 -g -O1 -I. -fsanitize=fuzzer,address,undefined
//     tests/fuzz/heap_file_fuzz.cc daemon/snapshot/{*,file/*}.cc daemon/util/{..}.cc ..
//     -o heap_file_fuzz && ./heap_file_fuzz CORPUS
//
// tests/unit/snapshot/file/heap_file_fuzz_test.cc runs it with fixed mutations in every build.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "daemon/snapshot/file/heap_file_format.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "tests/kit/memory_file.h"

namespace memprofd {
namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "heap_file_fuzz: %s\n", what);
  std::abort();
}

// The checksums of what looks like pieces.
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

}  // namespace
}  // namespace memprofd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  memprofd::put_checksums(bytes);
  const memprofd::UniqueFd file = memprofd::memory_file(bytes);
  const auto image = memprofd::read_heap_image("/proc/self/fd/" + std::to_string(file.get()));
  if (!image.ok()) return 0;
  memprofd::check_edges(*image);
  memprofd::check_names(*image);
  return 0;
}
