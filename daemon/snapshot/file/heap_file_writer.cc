// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/heap_file_writer.h"

#include <algorithm>
#include <bit>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

// It is 2^64 divided by the golden ratio (Knuth).
constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;

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

// All that a later piece may refer to.
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

std::uint32_t HeapFileWriter::word_name(const BlockPart& part) {
  const unsigned tag = tag_of(part.header);
  const auto& name_of = tag == kClosureTag ? word_names_.function : word_names_.custom;
  if ((tag != kClosureTag && tag != kCustomTag) || part.fields.empty() || !name_of) return 0;
  const std::uint64_t word = part.fields[0];
  const auto found = word_texts_.find(word);
  if (found != word_texts_.end()) return found->second;
  if (word_texts_.size() == kMaxWordNames) return 0;
  return word_texts_[word] = text(name_of(word));
}

std::uint64_t HeapFileWriter::outside_bytes(const BlockPart& part) {
  if (tag_of(part.header) != kCustomTag || part.fields.empty() || !word_names_.outside) return 0;
  const std::uint64_t bytes = word_names_.outside(part.fields);
  if (bytes == 0 || outside_sizes_.contains(bytes)) return bytes;
  if (outside_sizes_.size() == kMaxOutsideSizes) return std::bit_ceil(bytes);
  outside_sizes_.insert(bytes);
  return bytes;
}

std::uint64_t HeapFileWriter::shape(const Shape& shape) {
  const auto [at, added] = shape_numbers_.try_emplace(shape, shape_numbers_.size());
  if (!added) return at->second;
  const std::uint64_t number = at->second;
  if (shape.form == ShapeForm::kMasked) ++masked_shapes_;
  shapes_.bytes.put_byte(shape.tag);
  shapes_.bytes.put_byte(static_cast<std::uint8_t>(shape.form));
  shapes_.bytes.put(shape.name);
  shapes_.bytes.put(shape.words);
  if (shape.form == ShapeForm::kMasked) shapes_.bytes.put(shape.mask);
  if (shape.form == ShapeForm::kFiber) shapes_.bytes.put(shape.site);
  if (shape.tag == kCustomTag) shapes_.bytes.put(shape.outside_bytes);
  if (shapes_.bytes.size() >= kPieceBytes) flush_blocks();
  return number;
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
    stretches_.add(region.begin, region.end());
  }
  flush(regions);
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
  contents_.add(blocks_put_++, part);
  flush_contents(kPieceBytes);
  last_place_ = part.address / kWordBytes;
  if (tag_of(part.header) == kContinuationTag && put_fiber(part)) return;
  if (tag_of(part.header) == kAbstractTag && put_weak(part)) return;
  const bool is_small = fields_of(part.header) <= kMaskedFields || !holds_values(part.header);
  if (!is_small || !put_masked(part)) put_listed(part);
  if (blocks_.bytes.size() >= kPieceBytes) flush_blocks();
}

void HeapFileWriter::begin_region(const HeapRegion& region) {
  if (region_ == nullptr) {  // all of these come before the blocks
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

// Its number + 1; 0 when there are too many shapes already.
std::uint64_t HeapFileWriter::masked_shape(const BlockPart& part, std::uint32_t mask) {
  const unsigned tag = tag_of(part.header);
  const std::uint64_t header = part.header ^ colour_of(part.header);
  const std::uint64_t code = tag == kClosureTag && !part.fields.empty() ? part.fields[0] : 0;
  const std::uint64_t mixed = (header ^ code << 7 ^ std::uint64_t{mask} << 32) * kMix;
  KnownShape& known = known_shapes_[mixed >> 32 & (kKnownShapes - 1)];
  if (known.number != 0 && known.header == header && known.mask == mask && known.code == code) {
    return known.number;
  }
  const Shape shape{.tag = static_cast<std::uint8_t>(tag),
                    .name = word_name(part),
                    .words = part.words,
                    .mask = mask,
                    .outside_bytes = outside_bytes(part)};
  if (mask != 0 && masked_shapes_ >= kMaxMaskedShapes && !shape_numbers_.contains(shape)) return 0;
  const std::uint64_t number = this->shape(shape) + 1;
  // What a custom block holds outside of the heap is in its shape, and may be another each time.
  if (tag != kCustomTag) known = {header, code, mask, static_cast<std::uint32_t>(number)};
  return number;
}

// False when there are too many shapes already.
bool HeapFileWriter::put_masked(const BlockPart& part) {
  std::array<std::uint64_t, kMaskedFields> pointers;
  std::size_t count = 0;
  std::uint32_t mask = 0;
  if (holds_values(part.header)) {
    for (std::size_t i = 0; i < part.fields.size(); ++i) {
      if (!in_heap(part.fields[i])) continue;
      mask |= 1u << i;
      pointers[count++] = part.fields[i];
    }
  }
  const std::uint64_t number = masked_shape(part, mask);
  if (number == 0) return false;
  blocks_.bytes.put(number);
  for (std::size_t i = 0; i < count; ++i) put_pointer(pointers[i]);
  return true;
}

void HeapFileWriter::put_listed(const BlockPart& part) {
  const Shape listed{.tag = static_cast<std::uint8_t>(tag_of(part.header)),
                     .form = ShapeForm::kListed,
                     .name = word_name(part),
                     .words = part.words};
  blocks_.bytes.put(shape(listed) + 1);
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
