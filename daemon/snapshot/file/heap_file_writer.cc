// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/heap_file_writer.h"

#include <algorithm>
#include <bit>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

void append_u32(std::string& bytes, std::uint32_t value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof raw);
}

}  // namespace

// ---------------------------------------------------------------------- pieces

void HeapFileWriter::put_piece(PieceKind kind, std::string_view payload) {
  if (!status_.ok()) return;
  std::string bytes;
  bytes.reserve(kPieceHeadBytes + payload.size());
  append_u32(bytes, static_cast<std::uint32_t>(kind));
  append_u32(bytes, static_cast<std::uint32_t>(payload.size()));
  append_u32(bytes, piece_checksum(bytes, payload));
  bytes.append(payload);
  bytes_ += bytes.size();
  status_ = sink_(bytes);
}

void HeapFileWriter::flush(Piece& piece) {
  if (piece.bytes.size() == 0) return;
  put_piece(piece.kind, piece.bytes.bytes());
  piece.bytes.clear();
}

// Writes everything that later pieces may refer to.
void HeapFileWriter::flush_names() {
  flush(texts_);
  flush(locations_);
  flush(names_);
  flush(sites_);
}

void HeapFileWriter::flush_if_full(Piece& piece) {
  if (piece.bytes.size() < kPieceBytes) return;
  flush_names();
  flush(piece);
}

void HeapFileWriter::flush_blocks() {
  flush_names();
  flush(shapes_);
  flush(blocks_);
}

// ---------------------------------------------------------------------- names

std::uint32_t HeapFileWriter::text(std::string_view text) {
  if (text.empty()) return 0;
  text = text.substr(0, kMaxTextBytes);
  const auto [at, added] = text_numbers_.try_emplace(
      std::string(text), static_cast<std::uint32_t>(text_numbers_.size() + 1));
  if (added) {
    texts_.bytes.put_text(text);
    flush_if_full(texts_);
  }
  return at->second;
}

std::uint32_t HeapFileWriter::location(const Location& location) {
  const auto [at, added] =
      location_numbers_.try_emplace(location, static_cast<std::uint32_t>(location_numbers_.size()));
  if (!added) return at->second;
  const std::uint32_t number = at->second;
  const std::uint32_t function = text(location.function);
  const std::uint32_t file = text(location.file);
  const std::uint32_t library = text(location.library);
  for (const std::uint32_t part :
       {function, file, location.line, location.start_column, location.end_column, library}) {
    locations_.bytes.put(part);
  }
  flush_if_full(locations_);
  return number;
}

std::uint32_t HeapFileWriter::root_name(const RootName& name) {
  const std::uint32_t owner = text(name.owner);
  const std::uint32_t field = name.field == RootName::kNoField ? 0 : name.field + 1;
  const std::uint32_t place = name.place == Location() ? 0 : location(name.place) + 1;
  const auto [at, added] =
      name_numbers_.try_emplace({static_cast<int>(name.kind), owner, field, place},
                                static_cast<std::uint32_t>(name_numbers_.size()));
  if (!added) return at->second;
  names_.bytes.put_byte(static_cast<std::uint8_t>(name.kind));
  for (const std::uint32_t part : {owner, field, place}) names_.bytes.put(part);
  flush_if_full(names_);
  return static_cast<std::uint32_t>(name_numbers_.size() - 1);
}

// ---------------------------------------------------------------------- before the walk

void HeapFileWriter::begin(const ImageInfo& info, const HeapMap& map) {
  std::string start(kHeapFileMagic);
  append_u32(start, kHeapFileVersion);
  bytes_ += start.size();
  status_ = sink_(start);
  FileBytesWriter head;
  head.put_text(info.program.substr(0, kMaxTextBytes));
  head.put(info.pid);
  head.put_text(info.ocaml_version);
  head.put_signed(info.unix_ns);
  head.put(info.pause_ns);
  head.put_double(info.sampling_rate);
  head.put(info.heap_words);
  head.put(info.longest_wait_ns);
  put_piece(PieceKind::kHead, head.bytes());
  put_regions(map);
}

void HeapFileWriter::put_regions(const HeapMap& map) {
  Piece regions{PieceKind::kRegions, {}};
  std::uint64_t end = 0;
  for (const HeapRegion& region : map.regions) {
    regions.bytes.put(region.begin / kWordBytes - end);
    regions.bytes.put(region.words);
    regions.bytes.put_byte(static_cast<std::uint8_t>(region.kind));
    regions.bytes.put(region.slot_words);
    end = region.end() / kWordBytes;
    flush_if_full(regions);
    // A pool is one region with its head, which holds no block; adjacent ones become one region.
    const bool is_pool = region.kind == RegionKind::kPool;
    heap_regions_.add(is_pool ? std::min(region.begin, region.head()) : region.begin, region.end());
  }
  flush(regions);
}

void HeapFileWriter::add_interfaces(const InterfaceDigests& interfaces) {
  Piece piece{PieceKind::kInterfaces, {}};
  for (const auto& [unit, digest] : interfaces) {
    piece.bytes.put_text(unit);
    piece.bytes.put_text(digest);
    flush_if_full(piece);
  }
  flush(piece);
}

void HeapFileWriter::put_place(Piece& piece, std::uint64_t value, std::uint64_t& before) {
  if (piece.bytes.size() == 0) before = 0;
  piece.bytes.put_signed(static_cast<std::int64_t>(place_of(value) - before));
  before = place_of(value);
}

void HeapFileWriter::add_root(std::uint64_t value, const RootName& name) {
  if (!in_heap(value)) return;
  const std::uint32_t number = root_name(name);
  put_place(roots_, value, last_root_);
  roots_.bytes.put(number);
  flush_if_full(roots_);
}

// ---------------------------------------------------------------------- the walk

void HeapFileWriter::operator()(const HeapRegion& region, const BlockPart& part) {
  if (&region != region_) begin_region(region);
  if (part.state != BlockState::kUsed) {
    gap_ += region.kind == RegionKind::kPool ? region.slot_words : part.words;
    return;
  }
  if (part.first != 0) {
    if (in_list_) put_fields(part);
    return contents_.add(blocks_put_ - 1, part);
  }
  put_gap();
  ++blocks_put_;
  if (!contents_.keeps_nothing()) {
    contents_.add(blocks_put_ - 1, part);
    flush_contents(kPieceBytes);
  }
  last_place_ = part.address / kWordBytes;
  if (tag_of(part.header) == kContinuationTag && put_fiber(part)) return;
  if (tag_of(part.header) == kAbstractTag && put_weak(part)) return;
  const bool is_small = fields_of(part.header) <= kMaskedFields || !holds_values(part.header);
  if (!is_small || !put_masked(part)) put_listed(part);
  if (blocks_.bytes.size() >= kPieceBytes) flush_blocks();
}

void HeapFileWriter::begin_region(const HeapRegion& region) {
  if (region_ == nullptr) {  // these come before all blocks
    flush_names();
    flush(roots_);
    flush_samples();
  }
  put_gap();
  region_ = &region;
}

void HeapFileWriter::put_gap() {
  end_list();
  if (gap_ == 0) return;
  blocks_.bytes.put(0);
  blocks_.bytes.put(gap_);
  gap_ = 0;
}

void HeapFileWriter::put_pointer(std::uint64_t value) {
  ++pointers_put_;
  blocks_.bytes.put_signed(static_cast<std::int64_t>(place_of(value) - last_place_));
  last_place_ = place_of(value);
}

void HeapFileWriter::put_listed(const BlockPart& part) {
  const Shape listed{.tag = static_cast<std::uint8_t>(tag_of(part.header)),
                     .form = ShapeForm::kListed,
                     .name = word_name(part),
                     .words = part.words};
  blocks_.bytes.put(shape(listed).number);
  in_list_ = true;
  last_field_ = 0;
  put_fields(part);
}

void HeapFileWriter::put_fields(const BlockPart& part) {
  for (std::size_t i = 0; i < part.fields.size(); ++i) {
    if (!in_heap(part.fields[i])) continue;
    const std::uint64_t field = part.first + i + 1;
    blocks_.bytes.put(field - std::exchange(last_field_, field));
    put_pointer(part.fields[i]);
    if (blocks_.bytes.size() >= kPieceBytes) flush_blocks();
  }
}

void HeapFileWriter::end_list() {
  if (std::exchange(in_list_, false)) blocks_.bytes.put(0);
}

// ---------------------------------------------------------------------- the end

void HeapFileWriter::add_outside(std::uint64_t block, const ChunkBytes& held) {
  put_place(outside_, block + kWordBytes, last_outside_);
  outside_.bytes.put(held.bytes);
  outside_.bytes.put(held.resident);
  if (outside_.bytes.size() >= kPieceBytes) flush(outside_);
}

absl::Status HeapFileWriter::end(const HeapCensus& census) {
  put_gap();
  flush_names();
  flush(roots_);
  flush_samples();
  flush_marks();
  flush_blocks();
  flush(outside_);
  flush_contents(1);
  put_counts(census);
  FileBytesWriter end;
  end.put(blocks_put_);
  end.put(pointers_put_);
  put_piece(PieceKind::kEnd, end.bytes());
  return status_;
}

void HeapFileWriter::put_counts(const HeapCensus& census) {
  Piece counts{PieceKind::kCounts, {}};
  const auto put_row = [&](CountKind kind, const SizeRow& row) {
    counts.bytes.put_byte(static_cast<std::uint8_t>(kind));
    counts.bytes.put_byte(static_cast<std::uint8_t>(row.tag));
    counts.bytes.put(row.fields);
    counts.bytes.put(row.blocks);
    flush_if_full(counts);
  };
  for (const SizeRow& row : census.dead().rows()) put_row(CountKind::kDead, row);
  for (const SizeRow& row : census.free().rows()) put_row(CountKind::kFree, row);
  put_row(CountKind::kFragments, {.blocks = census.major(BlockState::kFragment).blocks});
  flush(counts);
}

}  // namespace memprofd
