// SPDX-License-Identifier: Apache-2.0
// Heaps built by a test, written as snapshot files.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/file/heap_file_writer.h"
#include "daemon/snapshot/heap_walk.h"
#include "tests/kit/fake_heap.h"
#include "tests/kit/memory_file.h"

namespace memprofd {

inline ImageInfo image_info() {
  return {.program = "/srv/shop.exe",
          .pid = 4242,
          .ocaml_version = "4.13.1",
          .unix_ns = 1'750'000'000'000'000'000,
          .pause_ns = 1'234'567,
          .sampling_rate = 1e-4,
          .heap_words = 123'456,
          .longest_wait_ns = 3'000'000'000};
}

// Called before and after the walk, to add pieces.
using BeforeWalk = std::function<void(HeapFileWriter&)>;
using AfterWalk = std::function<void(HeapFileWriter&)>;

// A fiber that holds the value before the word: twice in its inner frame, and in its outer one.
inline std::optional<FiberStack> fiber_of(std::uint64_t word) {
  if (word % 2 == 0 || word == 1) return std::nullopt;
  return FiberStack{.frames = {{.function = "Fiber.wait", .line = 1}, {.function = "Fiber.run"}},
                    .held = {{0, word - 1}, {0, word - 1}, {1, 3}, {1, word - 1}}};
}

// Names closures and custom blocks by their first words.
inline WordNames word_names() {
  return {.function = [](std::uint64_t code) { return "Code.f" + std::to_string(code); },
          .custom = [](std::uint64_t words) { return "_custom" + std::to_string(words); },
          .outside = [](std::span<const std::uint64_t> fields) { return 100 * fields[0]; },
          .fiber = fiber_of};
}

inline absl::StatusOr<std::string> heap_file_of(const MemoryReader& memory, const HeapMap& map,
                                                const BeforeWalk& before = nullptr,
                                                const ImageInfo& info = image_info(),
                                                const AfterWalk& after = nullptr,
                                                unsigned whole = kWhole) {
  std::string bytes;
  HeapFileWriter writer(
      [&bytes](std::string_view piece) {
        bytes += piece;
        return absl::OkStatus();
      },
      word_names());
  writer.begin(info, map);
  if (before) before(writer);
  HeapCensus census;
  const absl::Status walked = walk_heap(
      memory, map,
      [&](const HeapRegion& region, const BlockPart& part) {
        census(region, part);
        writer(region, part);
      },
      whole);
  if (!walked.ok()) return walked;
  if (after) after(writer);
  if (absl::Status ended = writer.end(census); !ended.ok()) return ended;
  return bytes;
}

// A snapshot of pid 4242 at that time: an array of floats, which Cache's field 2 holds. Each float
// was sampled, and is marked in another one.
inline std::string some_heap_file(std::int64_t unix_ns, std::uint64_t floats = 3) {
  FakeChunks heap;
  std::vector<std::vector<std::uint64_t>> blocks{block(floats, 0)};
  for (std::uint64_t i = 0; i < floats; ++i) blocks.push_back(block(1, 253));
  const std::uint64_t array = heap.put_chunk(joined(blocks)) + 8;
  const auto of = [&](std::uint64_t i) { return array + 8 * (floats + 1 + 2 * i); };
  for (std::uint64_t i = 0; i < floats; ++i) heap.memory.poke(array + 8 * i, of(i));
  ImageInfo info = image_info();
  info.unix_ns = unix_ns;
  const auto named = [&](HeapFileWriter& writer) {
    writer.add_root(array, {.kind = RootKind::kGlobal, .owner = "Cache", .field = 2});
    const auto site = writer.add_site({{.function = "Cache.add", .file = "cache.ml", .line = 41}});
    for (std::uint64_t i = 0; i < floats; ++i) writer.add_sample(of(i), i + 1, 1, site);
  };
  return heap_file_of(heap.memory, *heap.map(), named, info).value();
}

// Rewrites a file: change(kind, payload) edits each piece, and returns false to omit it.
template <typename Change>
std::string changed(const std::string& bytes, const Change& change) {
  std::string result = bytes.substr(0, kHeapFileStartBytes);
  const auto u32 = [](auto value) {
    const auto narrow = static_cast<std::uint32_t>(value);
    return std::string(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  };
  for (std::size_t at = kHeapFileStartBytes; at < bytes.size();) {
    std::uint32_t number = 0, size = 0;
    std::memcpy(&number, &bytes[at], sizeof number);
    std::memcpy(&size, &bytes[at + 4], sizeof size);
    std::string payload = bytes.substr(at + kPieceHeadBytes, size);
    at += kPieceHeadBytes + size;
    auto kind = static_cast<PieceKind>(number);
    if (!change(kind, payload)) continue;
    const std::string head = u32(kind) + u32(payload.size());
    result += head + u32(piece_checksum(head, payload)) + payload;
  }
  return result;
}

inline absl::StatusOr<HeapImage> image_of(std::string_view bytes, const ImageLimits& limits = {}) {
  const UniqueFd file = memory_file(bytes);
  return read_heap_image("/proc/self/fd/" + std::to_string(file.get()), limits);
}

}  // namespace memprofd
