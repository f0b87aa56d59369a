// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/heap_file_writer.h"

#include <algorithm>
#include <array>
#include <bit>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

void append_u32(std::string& bytes, std::uint32_t value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof raw);
}

// 2^64 divided by the golden ratio (Knuth).
constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;

// The reader of an image does not distinguish further frames.
constexpr std::size_t kMaxNamedFrames = 255;

// The place where the fiber waits, if known.
std::string_view innermost(const std::vector<Location>& frames) {
  for (const Location& frame : frames) {
    if (!frame.function.empty()) return frame.function;
  }
  return "";
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

// ----------------------------------------------------- shapes and small blocks

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

HeapFileWriter::DefinedShape HeapFileWriter::shape(const Shape& shape) {
  const auto [at, added] =
      shape_numbers_.try_emplace(shape, DefinedShape{.number = shape_numbers_.size() + 1});
  if (!added) return at->second;
  ShapeForm form = shape.form;
  const auto pointers = static_cast<std::uint32_t>(std::popcount(shape.mask));
  if (has_mask(form)) ++masked_shapes_;
  if (form == ShapeForm::kGuessed && guesses_.size() + pointers <= kMaxGuesses) {
    at->second.guesses = static_cast<std::uint32_t>(guesses_.size());
    guesses_.resize(guesses_.size() + pointers);
  } else if (form == ShapeForm::kGuessed) {
    form = ShapeForm::kMasked;
  }
  const DefinedShape defined = at->second;
  shapes_.bytes.put_byte(shape.tag);
  shapes_.bytes.put_byte(static_cast<std::uint8_t>(form));
  shapes_.bytes.put(shape.name);
  shapes_.bytes.put(shape.words);
  if (has_mask(form)) shapes_.bytes.put(shape.mask);
  if (form == ShapeForm::kFiber) shapes_.bytes.put(shape.site);
  if (shape.tag == kCustomTag) shapes_.bytes.put(shape.outside_bytes);
  if (shapes_.bytes.size() >= kPieceBytes) flush_blocks();
  return defined;
}

// Returns number 0 if there are too many shapes already.
inline HeapFileWriter::DefinedShape HeapFileWriter::masked_shape(const BlockPart& part,
                                                                 std::uint32_t mask) {
  const std::uint64_t header = part.header ^ colour_of(part.header);
  const bool is_closure = tag_of(header) == kClosureTag && !part.fields.empty();
  const std::uint64_t code = is_closure ? part.fields[0] : 0;
  const std::uint64_t mixed = (header ^ code << 7 ^ std::uint64_t{mask} << 32) * kMix;
  KnownShape& known = known_shapes_[mixed >> 32 & (kKnownShapes - 1)];
  if (known.header == header && known.mask == mask && known.code == code && known.shape.number != 0)
      [[likely]] {
    return known.shape;
  }
  const DefinedShape defined = new_masked_shape(part, mask);
  // The shape of a custom block contains its memory outside of the heap, which may differ each
  // time.
  if (tag_of(header) != kCustomTag) known = {header, code, mask, defined};
  return defined;
}

HeapFileWriter::DefinedShape HeapFileWriter::new_masked_shape(const BlockPart& part,
                                                              std::uint32_t mask) {
  const unsigned tag = tag_of(part.header);
  const Shape shape{.tag = static_cast<std::uint8_t>(tag),
                    .form = mask == 0 ? ShapeForm::kMasked : ShapeForm::kGuessed,
                    .name = word_name(part),
                    .words = part.words,
                    .mask = mask,
                    .outside_bytes = outside_bytes(part)};
  if (mask != 0 && masked_shapes_ >= kMaxMaskedShapes && !shape_numbers_.contains(shape)) return {};
  return this->shape(shape);
}

// Returns false if there are too many shapes already.
bool HeapFileWriter::put_masked(const BlockPart& part) {
  std::array<std::uint64_t, kMaskedFields> places;
  std::size_t count = 0;
  std::uint32_t mask = 0;
  if (holds_values(part.header)) {
    for (std::size_t i = 0; i < part.fields.size(); ++i) {
      if (!in_heap(part.fields[i])) continue;
      mask |= 1u << i;
      places[count++] = place_of(part.fields[i]);
    }
  }
  const DefinedShape defined = masked_shape(part, mask);
  if (defined.number == 0) return false;
  FileBytesWriter::Numbers out(blocks_.bytes, 1 + count);
  out.put(defined.number);
  PointerGuess none;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_guessed = defined.guesses != DefinedShape::kNoGuesses;
    PointerGuess& guess = is_guessed ? guesses_[defined.guesses + i] : none;
    const std::uint64_t from = is_guessed ? guess.from(last_place_) : last_place_;
    out.put_signed(static_cast<std::int64_t>(places[i] - from));
    guess.learn(last_place_, places[i]);
    last_place_ = places[i];
  }
  pointers_put_ += count;
  return true;
}

// ------------------------------------------------------- fibers and ephemerons

// Returns false if the block has no fiber.
bool HeapFileWriter::put_fiber(const BlockPart& part) {
  if (!word_names_.fiber || part.fields.empty()) return false;
  const auto stack = word_names_.fiber(part.fields[0]);
  if (!stack) return false;
  const Shape fiber{.tag = static_cast<std::uint8_t>(tag_of(part.header)),
                    .form = ShapeForm::kFiber,
                    .name = text(innermost(stack->frames)),
                    .words = part.words,
                    .site = fiber_site(stack->frames)};
  blocks_.bytes.put(shape(fiber).number);
  std::uint32_t frame = 0;
  for (const FiberStack::Held& held : stack->held) {
    if (held.frame >= kMaxFiberFrames) break;
    if (!in_heap(held.value)) continue;
    blocks_.bytes.put(1 + held.frame - std::exchange(frame, held.frame));
    put_pointer(held.value);
    if (blocks_.bytes.size() >= kPieceBytes) flush_blocks();
  }
  blocks_.bytes.put(0);
  return true;
}

// Returns the number of the callstack plus 1; 0: there are too many.
std::uint32_t HeapFileWriter::fiber_site(const std::vector<Location>& frames) {
  std::vector<std::uint32_t> places;
  for (std::size_t i = 0; i < std::min(frames.size(), kMaxNamedFrames); ++i) {
    places.push_back(location(frames[i]));
  }
  const auto found = fiber_sites_.find(places);
  if (found != fiber_sites_.end()) return found->second;
  if (fiber_sites_.size() == kMaxFiberSites) return 0;
  const std::uint32_t site = add_site_of(places) + 1;
  fiber_sites_.emplace(std::move(places), site);
  return site;
}

// Returns false if the block is not an ephemeron. An ephemeron does not keep the next one in the
// runtime's list alive.
bool HeapFileWriter::put_weak(const BlockPart& part) {
  if (part.fields.size() < kFirstKey || !ephemerons_.blocks.contains(part.address)) return false;
  const bool has_data = part.fields[kEphemeronData] != ephemerons_.nothing;
  const Shape weak{.tag = static_cast<std::uint8_t>(tag_of(part.header)),
                   .form = ShapeForm::kWeak,
                   .name = text(has_data ? kEphemeronName : kWeakArrayName),
                   .words = part.words};
  blocks_.bytes.put(shape(weak).number);
  in_list_ = true;
  last_field_ = 0;
  BlockPart behind = part;
  behind.first = kEphemeronData;
  behind.fields = part.fields.subspan(kEphemeronData);
  put_fields(behind);
  return true;
}

// --------------------------------------------------------------------- samples

std::uint32_t HeapFileWriter::add_site(const std::vector<Location>& callstack) {
  std::vector<std::uint32_t> numbers;
  for (const Location& place : callstack) numbers.push_back(location(place));
  numbers.resize(std::min(numbers.size(), kMaxSiteLocations));
  return add_site_of(numbers);
}

std::uint32_t HeapFileWriter::add_site_of(const std::vector<std::uint32_t>& numbers) {
  sites_.bytes.put(numbers.size());
  for (const std::uint32_t number : numbers) sites_.bytes.put(number);
  flush_if_full(sites_);
  return sites_added_++;
}

void HeapFileWriter::add_sample(std::uint64_t value, std::uint64_t sample_id, std::uint32_t samples,
                                std::uint32_t site, std::uint64_t age_ns) {
  const bool has_place = in_heap(value);
  if (samples_.bytes.size() == 0) last_sample_ = 0;
  samples_.bytes.put(site);
  samples_.bytes.put(sample_id);
  samples_.bytes.put(samples);
  samples_.bytes.put_byte(has_place ? 1 : 0);
  if (has_place) {
    samples_.bytes.put_signed(static_cast<std::int64_t>(place_of(value) - last_sample_));
    last_sample_ = place_of(value);
  }
  ages_.bytes.put(age_ns == SampledBlock::kNoAge ? 0 : age_ns / 1000 + 1);
  if (samples_.bytes.size() >= kPieceBytes) flush_samples();
}

void HeapFileWriter::flush_samples() {
  flush_names();
  flush(samples_);
  flush(ages_);
}

// ------------------------------------------------------------------ assertions

void HeapFileWriter::add_assertion(const HeapAssertion& assertion) {
  assertions_.bytes.put_byte(static_cast<std::uint8_t>(assertion.kind));
  assertions_.bytes.put(text(assertion.name));
  assertions_.bytes.put_byte(assertion.is_whole ? 1 : 0);
  assertions_.bytes.put(assertion.not_due);
  assertions_.bytes.put(assertion.unchecked);
  if (assertion.kind == AssertionKind::kRegion) {
    assertions_.bytes.put(assertion.max_bytes);
    assertions_.bytes.put(assertion.begin_age_ns / 1000);
    assertions_.bytes.put(assertion.end_age_ns / 1000);
  }
  if (assertions_.bytes.size() >= kPieceBytes) flush_marks();
}

void HeapFileWriter::add_mark(std::uint32_t assertion, std::uint64_t value,
                              AssertionMark::Until until, std::uint64_t other) {
  if (marks_.bytes.size() == 0) last_mark_ = 0;
  marks_.bytes.put(assertion);
  put_place(marks_, value, last_mark_);
  marks_.bytes.put_byte(static_cast<std::uint8_t>(until));
  if (until == AssertionMark::Until::kOther) {
    marks_.bytes.put_signed(static_cast<std::int64_t>(place_of(other) - place_of(value)));
  }
  if (marks_.bytes.size() >= kPieceBytes) flush_marks();
}

void HeapFileWriter::flush_marks() {
  flush_names();
  flush(assertions_);
  flush(marks_);
}

// -------------------------------------------------------------------- contents

void HeapFileWriter::flush_contents(std::size_t least) {
  const auto flush = [&](PieceKind kind, FileBytesWriter& bytes) {
    if (bytes.size() < least) return;
    put_piece(kind, bytes.bytes());
    bytes.clear();
  };
  flush(PieceKind::kContents, contents_.contents());
  flush(PieceKind::kFingerprints, contents_.fingerprints());
  flush(PieceKind::kBuffers, contents_.buffers());
}

}  // namespace memprofd
