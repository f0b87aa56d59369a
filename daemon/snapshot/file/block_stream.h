// SPDX-License-Identifier: Apache-2.0
// Reads the stream of blocks of a heap file (heap_file_format.h) across pieces. Safe for any input:
// a block outside of its region, an undefined shape or a field that the block does not have ends
// the stream.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/snapshot/file/file_bytes.h"
#include "daemon/snapshot/file/heap_file_format.h"
#include "daemon/snapshot/file/pointer_guess.h"
#include "daemon/snapshot/heap_map.h"

namespace memprofd {

struct FileShape {
  ShapeForm form = ShapeForm::kMasked;
  std::uint32_t mask = 0;
  std::uint64_t words = 0;    // header included
  std::uint32_t shape = 0;    // number in the image
  std::uint32_t guesses = 0;  // kGuessed only: index of the guess for its first pointer
};

// Visitor: on_block(region, place, shape), then on_pointer(field, place) for each pointer of the
// block, in order, or on_key(field, place) for one that an ephemeron or a weak array does not keep
// alive. Places are in words.
class BlockStream {
 public:
  // Both arguments outlive this object, and may grow.
  BlockStream(const std::vector<HeapRegion>& regions, const std::vector<FileShape>& shapes)
      : regions_(regions), shapes_(shapes) {}

  // Returns false if the piece is damaged.
  template <typename Visitor>
  bool read(std::string_view piece, Visitor& visit) {
    FileBytesReader in(piece);
    while (!in.done()) {
      if (!(in_list_ ? read_listed(in, visit) : read_item(in, visit))) return false;
    }
    return in.ok();
  }

 private:
  template <typename Visitor>
  bool read_item(FileBytesReader& in, Visitor& visit) {
    const std::uint64_t code = in.number();
    if (code == 0) return skip(in.number());
    if (code > shapes_.size()) return false;
    const FileShape shape = shapes_[code - 1];
    if (!find_region() || shape.words > left()) return false;
    const HeapRegion& region = regions_[region_];
    const bool in_slot = region.kind == RegionKind::kPool;
    if (in_slot && shape.words > region.slot_words) return false;
    place_ = region.begin / kWordBytes + offset_;
    visit.on_block(region, place_, shape.shape);
    if (!skip(in_slot ? region.slot_words : shape.words)) return false;
    if (!has_mask(shape.form)) {
      const std::uint64_t fields = shape.words - 1;
      in_list_ = true;
      // A fiber's frames follow the fields, and each frame may hold several pointers.
      const bool is_fiber = shape.form == ShapeForm::kFiber;
      first_key_ = shape.form == ShapeForm::kWeak ? kFirstKey : ~std::uint64_t{0};
      field_ = is_fiber ? fields : ~std::uint64_t{0};
      least_step_ = is_fiber ? 0 : 1;
      list_fields_ = is_fiber ? fields + kMaxFiberFrames : fields;
      return true;
    }
    if (shape.form == ShapeForm::kGuessed) return read_guessed(in, shape, visit);
    for (std::uint32_t mask = shape.mask; mask != 0; mask &= mask - 1) {
      place_ += static_cast<std::uint64_t>(in.signed_number());
      if (!in.ok()) return false;
      visit.on_pointer(static_cast<std::uint64_t>(std::countr_zero(mask)), place_);
    }
    return true;
  }

  template <typename Visitor>
  bool read_guessed(FileBytesReader& in, const FileShape& shape, Visitor& visit) {
    const std::size_t end = shape.guesses + static_cast<std::size_t>(std::popcount(shape.mask));
    if (guesses_.size() < end) guesses_.resize(std::max(end, 2 * guesses_.size()));
    PointerGuess* guess = &guesses_[shape.guesses];
    for (std::uint32_t mask = shape.mask; mask != 0; mask &= mask - 1, ++guess) {
      const std::uint64_t before = place_;
      place_ = guess->from(before) + static_cast<std::uint64_t>(in.signed_number());
      if (!in.ok()) return false;
      guess->learn(before, place_);
      visit.on_pointer(static_cast<std::uint64_t>(std::countr_zero(mask)), place_);
    }
    return true;
  }

  template <typename Visitor>
  bool read_listed(FileBytesReader& in, Visitor& visit) {
    const std::uint64_t step = in.number();
    if (step == 0) {
      in_list_ = false;
      return in.ok();
    }
    const std::uint64_t field = field_ + (step - 1) + least_step_;
    if (step > list_fields_ || field >= list_fields_) return false;
    field_ = field;
    place_ += static_cast<std::uint64_t>(in.signed_number());
    if (!in.ok()) return false;
    if (field_ < first_key_) {
      visit.on_pointer(field_, place_);
    } else {
      visit.on_key(field_, place_);
    }
    return true;
  }

  std::uint64_t left() const { return regions_[region_].words - offset_; }
  // Moves to the region of the next word; returns false if there is none.
  bool find_region() {
    while (region_ < regions_.size() && left() == 0) {
      ++region_;
      offset_ = 0;
    }
    return region_ < regions_.size();
  }
  bool skip(std::uint64_t words) {
    if (words == 0 || !find_region() || words > left()) return false;
    offset_ += words;
    return true;
  }

  const std::vector<HeapRegion>& regions_;
  const std::vector<FileShape>& shapes_;
  std::vector<PointerGuess> guesses_;
  std::size_t region_ = 0;
  std::uint64_t offset_ = 0;  // words into the region
  std::uint64_t place_ = 0;   // place of the previous block or pointer
  bool in_list_ = false;
  std::uint64_t list_fields_ = 0;  // fields of the block with the list, including a fiber's frames
  std::uint64_t least_step_ = 0;   // from one pointer's field to the next one's
  std::uint64_t field_ = 0;        // field of the last pointer
  std::uint64_t first_key_ = 0;    // this field and later ones do not keep their targets alive
};

}  // namespace memprofd
