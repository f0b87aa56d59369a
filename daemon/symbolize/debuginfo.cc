// SPDX-License-Identifier: Apache-2.0
#include "daemon/symbolize/debuginfo.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "daemon/discover/frame_table.h"

namespace memprofd {
namespace {

constexpr int kMaxInlined = 256;
constexpr std::size_t kMaxNameBytes = 4096;

constexpr std::uint64_t align_up(std::uint64_t address, std::uint64_t to) {
  return (address + to - 1) & ~(to - 1);
}

// A NUL-terminated string. It is read in aligned chunks, or byte by byte if memory ends inside one.
std::optional<std::string> read_string(const MemoryReader& memory, std::uint64_t address) {
  constexpr std::uint64_t kChunk = 256;
  std::string text;
  std::array<char, kChunk> chunk;
  while (text.size() < kMaxNameBytes) {
    std::size_t size = kChunk - address % kChunk;
    if (!memory.read(address, std::as_writable_bytes(std::span(chunk)).first(size)).ok()) {
      size = 1;
      if (!memory.read_value(address, chunk[0]).ok()) return std::nullopt;
    }
    const std::string_view bytes(chunk.data(), size);
    const std::size_t end = bytes.find('\0');
    text.append(bytes.substr(0, end));
    if (end != std::string_view::npos) return text;
    address += size;
  }
  return std::nullopt;
}

// Place and number of a descriptor's debuginfo offsets.
struct OffsetTable {
  std::uint64_t address = 0;
  std::uint32_t count = 0;
};

std::optional<OffsetTable> offset_table(const MemoryReader& memory, std::uint64_t descriptor) {
  struct {
    std::uint16_t frame_size;
    std::uint16_t num_live;
  } header;
  if (!memory.read_value(descriptor + 8, header).ok()) return std::nullopt;
  if (header.frame_size == FrameDescriptor::kChunkEnd || (header.frame_size & 1) == 0)
    return std::nullopt;
  const std::uint64_t after_live = descriptor + 12 + 2ull * header.num_live;
  if ((header.frame_size & 2) == 0) return OffsetTable{align_up(after_live, 4), 1};
  std::uint8_t num_allocs = 0;
  if (!memory.read_value(after_live, num_allocs).ok()) return std::nullopt;
  return OffsetTable{align_up(after_live + 1 + num_allocs, 4), num_allocs};
}

// Numbers in the longer form of a name record.
struct Columns {
  std::uint16_t start;
  std::uint16_t end;  // from the end line's beginning
  std::int32_t end_offset;
};

std::optional<SourceLocation> read_location(const MemoryReader& memory, std::uint64_t address,
                                            const PackedLocation& packed, LocationFormat format) {
  const std::uint64_t record = address + packed.name_offset();
  const bool has_more = format == LocationFormat::kLines && packed.has_more();
  std::int32_t file_offset = 0;
  if (!memory.read_value(record, file_offset).ok()) return std::nullopt;
  SourceLocation location{.line = packed.line(format),
                          .start_column = packed.start_column(format),
                          .end_column = packed.end_column(format)};
  std::uint64_t name = record + sizeof file_offset;
  if (has_more) {
    Columns columns;
    if (!memory.read_value(name, columns).ok()) return std::nullopt;
    location.start_column = columns.start;
    location.end_column = static_cast<std::uint32_t>(columns.end_offset);
    name += sizeof columns;
  }
  auto function = read_string(memory, name);
  auto file = read_string(memory, record + static_cast<std::uint64_t>(std::int64_t{file_offset}));
  if (!function || !file) return std::nullopt;
  location.function = std::move(*function);
  location.file = std::move(*file);
  return location;
}

}  // namespace

std::uint32_t PackedLocation::line(LocationFormat format) const {
  if (format == LocationFormat::kLine) return info2 >> 12;
  return has_more() ? (info2 >> 12) & 0x7FFFF : info2 >> 19;
}

std::uint32_t PackedLocation::start_column(LocationFormat format) const {
  if (format == LocationFormat::kLine) return (info2 >> 4) & 0xFF;
  return has_more() ? 0 : (info2 >> 10) & 0x3F;
}

std::uint32_t PackedLocation::end_column(LocationFormat format) const {
  if (format == LocationFormat::kLine) return (info2 & 0xF) << 6 | info1 >> 26;
  return has_more() ? 0 : ((info2 >> 3) & 0x7F) + ((info2 & 7) << 6 | info1 >> 26);
}

std::optional<std::uint64_t> find_debuginfo(const MemoryReader& memory, std::uint64_t descriptor,
                                            std::int32_t alloc_idx) {
  const auto table = offset_table(memory, descriptor);
  if (!table) return std::nullopt;
  std::array<std::uint32_t, 256> offsets = {};
  const auto used = std::span(offsets).first(table->count);
  if (!memory.read(table->address, std::as_writable_bytes(used)).ok()) return std::nullopt;
  std::size_t chosen = table->count;
  if (alloc_idx >= 0 && static_cast<std::uint32_t>(alloc_idx) < table->count) {
    chosen = static_cast<std::size_t>(alloc_idx);
  }
  if (chosen == table->count || offsets[chosen] == 0) {
    chosen = static_cast<std::size_t>(
        std::find_if(used.begin(), used.end(), [](std::uint32_t o) { return o != 0; }) -
        used.begin());
  }
  if (chosen == table->count || offsets[chosen] % 4 != 0) return std::nullopt;
  const auto distance = static_cast<std::int32_t>(offsets[chosen]);
  return table->address + 4 * chosen + static_cast<std::uint64_t>(std::int64_t{distance});
}

std::vector<SourceLocation> read_debuginfo(const MemoryReader& memory, std::uint64_t debuginfo,
                                           LocationFormat format) {
  std::vector<SourceLocation> locations;
  for (int i = 0; i < kMaxInlined; ++i, debuginfo += sizeof(PackedLocation)) {
    PackedLocation packed;
    if (!memory.read_value(debuginfo, packed).ok()) break;
    auto location = read_location(memory, debuginfo, packed, format);
    if (!location) break;
    locations.push_back(std::move(*location));
    if (!packed.has_next()) break;
  }
  return locations;
}

}  // namespace memprofd
