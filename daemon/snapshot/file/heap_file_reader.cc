// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/heap_file_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/ephemerons.h"
#include "daemon/snapshot/file/block_stream.h"
#include "daemon/snapshot/file/file_bytes.h"
#include "daemon/snapshot/file/image_contents.h"
#include "daemon/snapshot/file/image_tables.h"
#include "daemon/snapshot/file/piece_source.h"
#include "daemon/snapshot/outside_bytes.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

// Microseconds, some centuries.
constexpr std::uint64_t kMaxAge = std::uint64_t{1} << 54;

// Addresses of programs are below this limit.
constexpr std::uint64_t kMaxWords = std::uint64_t{1} << 44;

// Analyses number blocks and roots together, and need some further numbers.
constexpr std::uint64_t kMaxNumbers = HeapImage::kNoBlock - (std::uint64_t{1} << 24);

class ImageReader {
 public:
  ImageReader(PieceSource source, const ImageLimits& limits)
      : source_(std::move(source)), limits_(limits) {}

  absl::StatusOr<HeapImage> read(const std::string& path) {
    const bool is_good = read_all();
    if (is_too_large()) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " has more than ", format_count(limits_.blocks), " blocks or ",
                       format_count(limits_.pointers), " pointers"));
    }
    if (!is_good || !contents_.match_blocks()) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is damaged at byte ", piece_at_));
    }
    if (!index_.number_blocks() || image_.blocks() + image_.root_names.size() > kMaxNumbers ||
        pointers_ + roots_.size() + room_for_roots() > kMaxNumbers) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " has more than 4,294,967,295 blocks, or pointers and roots"));
    }
    if (!tables_.has_head())
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is truncated or damaged at its beginning"));
    RETURN_IF_ERROR(read_pointers(path));
    add_roots();
    add_samples();
    add_outside();
    add_marks();
    drop_data_without_keys(image_);
    return std::move(image_);
  }

 private:
  struct NamedRoot {
    std::uint64_t place = 0;
    std::uint32_t name = 0;
  };
  struct Outside {
    std::uint64_t place = 0;
    ChunkBytes held;
  };
  struct Mark {
    std::uint64_t place = 0;
    std::uint64_t other = 0;  // place of the other value; only for kOther
    AssertionMark mark;
  };
  struct Sample {
    std::uint64_t place = 0;  // 0: none
    SampledBlock block;
  };
  struct BlockVisitor;
  struct PointerVisitor;

  // A file with more holders than blocks is invalid, and is not kept.
  bool is_too_large() const {
    return image_.shape_of.size() > limits_.blocks || pointers_ > limits_.pointers ||
           outside_.size() > limits_.blocks;
  }
  bool read_all();
  bool read_piece(const PieceSource::Piece& piece);
  bool read_region(FileBytesReader& in);
  bool read_root(FileBytesReader& in, std::uint64_t& place);
  bool read_sample(FileBytesReader& in, std::uint64_t& place);
  bool read_age(FileBytesReader& in);
  bool read_outside(FileBytesReader& in, std::uint64_t& place);
  bool read_mark(FileBytesReader& in, std::uint64_t& place);
  bool read_end(FileBytesReader& in);

  absl::Status read_pointers(const std::string& path);
  std::uint32_t block_at(std::uint64_t place) const;
  // Room for roots, which analyses may number after the blocks: names of roots, with kinds, owners
  // and places.
  std::size_t room_for_roots() const { return 4 * image_.root_names.size() + 1; }
  void add_roots();
  void add_samples();
  void add_outside();
  void add_marks();

  PieceSource source_;
  const ImageLimits limits_;
  std::uint64_t piece_at_ = 0;
  HeapImage image_;
  ImageTables tables_{image_};
  ImageContents contents_{image_};
  bool has_end_ = false;
  std::vector<HeapRegion> regions_;
  BlockStream blocks_{regions_, tables_.shapes()};
  std::vector<std::uint64_t> block_pieces_;  // positions of the pieces with blocks
  BlockIndex index_;
  std::uint64_t pointers_ = 0;
  std::vector<NamedRoot> roots_;
  std::vector<Sample> samples_;
  std::size_t ages_ = 0;  // leading samples whose age was read
  std::vector<Outside> outside_;
  std::vector<Mark> marks_;
};

// The first pass: collects the places and shapes of blocks.
struct ImageReader::BlockVisitor {
  ImageReader& reader;

  void on_block(const HeapRegion& region, std::uint64_t place, std::uint32_t shape) {
    HeapImage& image = reader.image_;
    reader.index_.append(place * kWordBytes, image.shapes[shape].words);
    if (region.kind == RegionKind::kMinor) {
      const std::uint32_t block = image.blocks();
      if (image.young.empty() || image.young.back().end != block) {
        image.young.push_back({block, block});
      }
      image.young.back().end = block + 1;
    }
    image.shape_of.push_back(shape);
  }
  void on_pointer(std::uint64_t, std::uint64_t) { ++reader.pointers_; }
  void on_key(std::uint64_t, std::uint64_t) { ++reader.pointers_; }
};

// The second pass: collects pointers of blocks. A pointer leads nowhere if its target is not a
// block, or was truncated.
struct ImageReader::PointerVisitor {
  ImageReader& reader;

  void on_block(const HeapRegion&, std::uint64_t, std::uint32_t) {
    EdgeLists& edges = reader.image_.edges;
    edges.first.push_back(static_cast<std::uint32_t>(edges.to.size()));
  }
  void on_pointer(std::uint64_t field, std::uint64_t place) {
    const std::uint32_t block = reader.block_at(place);
    if (block == HeapImage::kNoBlock) return;
    reader.image_.edges.to.push_back(block);
    reader.image_.fields.push_back(
        static_cast<std::uint8_t>(std::min<std::uint64_t>(field, HeapImage::kFarField)));
  }
  void on_key(std::uint64_t, std::uint64_t place) {
    const std::uint32_t block = reader.block_at(place);
    if (block == HeapImage::kNoBlock) return;
    const auto holder = static_cast<std::uint32_t>(reader.image_.edges.first.size() - 1);
    reader.image_.weak.push_back({holder, block});
  }
};

bool ImageReader::read_all() {
  for (;;) {
    piece_at_ = source_.position();
    const auto piece = source_.next();
    if (!piece) break;
    // The head comes first, and nothing follows the end.
    if (has_end_ || tables_.has_head() == (piece->kind == PieceKind::kHead)) return false;
    if (!read_piece(*piece)) return false;
  }
  image_.info.complete = has_end_;
  return true;
}

bool ImageReader::read_piece(const PieceSource::Piece& piece) {
  FileBytesReader in(piece.payload);
  std::uint64_t place = 0;
  if (piece.kind == PieceKind::kBlocks) {
    block_pieces_.push_back(piece_at_);
    BlockVisitor visit{*this};
    return image_.shape_of.size() < HeapImage::kNoBlock && blocks_.read(piece.payload, visit) &&
           !is_too_large();
  }
  bool good = true;
  while (good && !in.done()) {
    if (piece.kind == PieceKind::kRegions) {
      good = read_region(in);
    } else if (piece.kind == PieceKind::kRoots) {
      good = read_root(in, place);
    } else if (piece.kind == PieceKind::kSamples) {
      good = read_sample(in, place);
    } else if (piece.kind == PieceKind::kAges) {
      good = read_age(in);
    } else if (piece.kind == PieceKind::kOutside) {
      good = read_outside(in, place);
    } else if (piece.kind == PieceKind::kMarks) {
      good = read_mark(in, place);
    } else if (ImageContents::is_of(piece.kind)) {
      good = contents_.read(piece.kind, in, place);
    } else if (piece.kind == PieceKind::kEnd) {
      good = read_end(in);
    } else {
      good = tables_.read(piece.kind, in);
    }
  }
  return good && in.ok();
}

bool ImageReader::read_region(FileBytesReader& in) {
  const std::uint64_t end = regions_.empty() ? 0 : regions_.back().end() / kWordBytes;
  const std::uint64_t gap = in.number();
  HeapRegion region{.words = in.number()};
  const std::uint8_t kind = in.byte();
  const std::uint64_t slot = in.number();
  if (!in.ok() || !block_pieces_.empty() || kind > static_cast<int>(RegionKind::kMinor) ||
      regions_.size() == kMaxHeapRegions || region.words == 0 || region.words > kMaxWords ||
      gap > kMaxWords || end + gap + region.words > kMaxWords || slot > region.words) {
    return false;
  }
  region.begin = (end + gap) * kWordBytes;
  region.slot_words = static_cast<std::uint32_t>(slot);
  region.kind = static_cast<RegionKind>(kind);
  regions_.push_back(region);
  return true;
}

bool ImageReader::read_root(FileBytesReader& in, std::uint64_t& place) {
  place += static_cast<std::uint64_t>(in.signed_number());
  const std::uint64_t name = in.number();
  if (name >= image_.root_names.size()) return false;
  roots_.push_back({place, static_cast<std::uint32_t>(name)});
  return true;
}

bool ImageReader::read_sample(FileBytesReader& in, std::uint64_t& place) {
  const std::uint64_t site = in.number();
  Sample sample{.block = {.sample_id = in.number(), .site = static_cast<std::uint32_t>(site)}};
  const std::uint64_t count = in.number();
  if (site >= image_.sites.size() || count == 0 || count > ~std::uint32_t{0}) return false;
  sample.block.samples = static_cast<std::uint32_t>(count);
  if (in.byte() != 0) sample.place = place += static_cast<std::uint64_t>(in.signed_number());
  samples_.push_back(sample);
  return true;
}

bool ImageReader::read_age(FileBytesReader& in) {
  const std::uint64_t age = in.number();
  if (ages_ == samples_.size() || age > kMaxAge) return false;
  if (age != 0) samples_[ages_].block.age_ns = (age - 1) * 1000;
  ++ages_;
  return true;
}

bool ImageReader::read_outside(FileBytesReader& in, std::uint64_t& place) {
  place += static_cast<std::uint64_t>(in.signed_number());
  const std::uint64_t bytes = in.number(), resident = in.number();
  outside_.push_back({place, {bytes, resident}});
  return bytes <= kMaxOutsideBytes && resident <= kMaxOutsideBytes && !is_too_large();
}

bool ImageReader::read_mark(FileBytesReader& in, std::uint64_t& place) {
  const std::uint64_t assertion = in.number();
  place += static_cast<std::uint64_t>(in.signed_number());
  const std::uint8_t until = in.byte();
  if (assertion >= image_.assertions.size() || marks_.size() == kMaxAssertionMarks ||
      until > static_cast<int>(AssertionMark::Until::kForever)) {
    return false;
  }
  Mark read{.place = place,
            .mark = {.assertion = static_cast<std::uint32_t>(assertion),
                     .until = static_cast<AssertionMark::Until>(until)}};
  if (read.mark.until == AssertionMark::Until::kOther) {
    read.other = place + static_cast<std::uint64_t>(in.signed_number());
  }
  marks_.push_back(read);
  return true;
}

bool ImageReader::read_end(FileBytesReader& in) {
  if (has_end_) return false;
  has_end_ = true;
  return in.number() == image_.blocks() && in.number() == pointers_;
}

// ---------------------------------------------------------------------- pointers

// A pointer to any but the first function of a closure points into it.
std::uint32_t ImageReader::block_at(std::uint64_t place) const {
  if (place >= kMaxWords) return HeapImage::kNoBlock;
  const std::uint64_t value = (place + 1) * kWordBytes;
  const std::uint32_t block = index_.find(value);
  if (block != HeapImage::kNoBlock) return block;
  const std::uint32_t before = index_.find_before(value);
  if (before == HeapImage::kNoBlock) return before;
  const BlockShape& shape = image_.shape(before);
  const std::uint64_t words_in = value / kWordBytes - index_.address_of(before) / kWordBytes;
  return shape.tag == kClosureTag && words_in < shape.words ? before : HeapImage::kNoBlock;
}

absl::Status ImageReader::read_pointers(const std::string& path) {
  // Unused capacity takes no memory.
  image_.edges.first.reserve(image_.shape_of.size() + 1 + room_for_roots());
  image_.edges.to.reserve(pointers_ + roots_.size() + room_for_roots());
  image_.fields.reserve(pointers_);
  BlockStream again(regions_, tables_.shapes());
  PointerVisitor visit{*this};
  for (const std::uint64_t position : block_pieces_) {
    source_.go_to(position);
    const auto piece = source_.next();
    if (!piece || piece->kind != PieceKind::kBlocks || !again.read(piece->payload, visit) ||
        image_.edges.to.size() + image_.weak.size() > pointers_ ||
        image_.edges.first.size() > image_.shape_of.size()) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has changed while it was read"));
    }
  }
  if (image_.edges.first.size() != image_.shape_of.size()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has changed while it was read"));
  }
  image_.edges.first.push_back(static_cast<std::uint32_t>(image_.edges.to.size()));
  return absl::OkStatus();
}

void ImageReader::add_roots() {
  for (const NamedRoot& root : roots_) {
    const std::uint32_t block = block_at(root.place);
    if (block != HeapImage::kNoBlock) image_.roots.push_back({block, root.name});
  }
}

void ImageReader::add_samples() {
  for (const Sample& sample : samples_) {
    image_.sampled.push_back(sample.block);
    image_.sampled.back().block = sample.place == 0 ? HeapImage::kNoBlock : block_at(sample.place);
  }
}

void ImageReader::add_outside() {
  for (const Outside& outside : outside_) {
    const std::uint32_t block = block_at(outside.place);
    if (block != HeapImage::kNoBlock) image_.chunk_bytes[block] = outside.held;
  }
}

// A place without a block is that of a value that the collector has freed.
void ImageReader::add_marks() {
  for (Mark& read : marks_) {
    read.mark.block = block_at(read.place);
    if (read.mark.block == HeapImage::kNoBlock) continue;
    if (read.mark.until == AssertionMark::Until::kOther) {
      read.mark.other = block_at(read.other);
      if (read.mark.other == HeapImage::kNoBlock) {
        read.mark.until = AssertionMark::Until::kOtherIsGone;
      }
    }
    image_.marks.push_back(read.mark);
  }
}

}  // namespace

absl::StatusOr<HeapImage> read_heap_image(const std::string& path, const ImageLimits& limits) {
  ASSIGN_OR_RETURN(PieceSource source, PieceSource::open(path));
  return ImageReader(std::move(source), limits).read(path);
}

}  // namespace memprofd
