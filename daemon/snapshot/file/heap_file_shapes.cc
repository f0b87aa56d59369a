// SPDX-License-Identifier: Apache-2.0
// HeapFileWriter: shapes, and small blocks with their pointers, which are most of a heap.
#include <array>
#include <bit>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/file/heap_file_writer.h"

namespace memprofd {
namespace {

// 2^64 divided by the golden ratio (Knuth).
constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;

}  // namespace

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
  if (form == ShapeForm::kGuessed && guesses_.size() + pointers <= kMostGuesses) {
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

}  // namespace memprofd
