// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/image_tables.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/outside_bytes.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kMaxFields = std::uint64_t{1} << 54;
constexpr std::uint64_t kMaxAgeUs = std::uint64_t{1} << 54;  // some centuries
constexpr std::uint64_t kMaxCopiedBytes = std::uint64_t{512} << 20;

}  // namespace

bool ImageTables::is_of(PieceKind kind) {
  switch (kind) {
    case PieceKind::kHead:
    case PieceKind::kTexts:
    case PieceKind::kLocations:
    case PieceKind::kNames:
    case PieceKind::kSites:
    case PieceKind::kShapes:
    case PieceKind::kCounts:
    case PieceKind::kInterfaces:
    case PieceKind::kAssertions:
      return true;
    default:
      return false;
  }
}

bool ImageTables::read(PieceKind kind, FileBytesReader& in) {
  switch (kind) {
    case PieceKind::kHead:
      return read_head(in);
    case PieceKind::kTexts:
      return read_text(in);
    case PieceKind::kLocations:
      return read_location(in);
    case PieceKind::kNames:
      return read_name(in);
    case PieceKind::kSites:
      return read_site(in);
    case PieceKind::kShapes:
      return read_shape(in);
    case PieceKind::kCounts:
      return read_count(in);
    case PieceKind::kInterfaces:
      return read_interface(in);
    case PieceKind::kAssertions:
      return read_assertion(in);
    default:
      return false;
  }
}

bool ImageTables::read_head(FileBytesReader& in) {
  if (has_head_) return false;
  has_head_ = true;
  ImageInfo& info = image_.info;
  info.program = valid_utf8(in.text());
  info.pid = static_cast<std::uint32_t>(in.number());
  info.ocaml_version = valid_utf8(in.text());
  info.unix_ns = in.signed_number();
  info.pause_ns = in.number();
  info.sampling_rate = in.real();
  info.heap_words = in.number();
  if (!in.done()) info.longest_wait_ns = in.number();
  return info.sampling_rate >= 0 && info.sampling_rate <= 1;
}

bool ImageTables::read_text(FileBytesReader& in) {
  const std::string_view text = in.text();
  if (text.size() > kMaxTextBytes) return false;
  image_.texts.push_back(valid_utf8(text));
  return true;
}

// A short number in the file may stand for a long text, so copies are counted.
bool ImageTables::note_copied(const Location& place) {
  copied_bytes_ += place.function.size() + place.file.size() + place.library.size();
  return copied_bytes_ <= kMaxCopiedBytes;
}

bool ImageTables::read_location(FileBytesReader& in) {
  const std::uint64_t function = in.number();
  const std::uint64_t file = in.number();
  Location place{.line = static_cast<std::uint32_t>(in.number()),
                 .start_column = static_cast<std::uint32_t>(in.number()),
                 .end_column = static_cast<std::uint32_t>(in.number())};
  const std::uint64_t library = in.number();
  if (!is_text(function) || !is_text(file) || !is_text(library)) return false;
  place.function = image_.texts[function];
  place.file = image_.texts[file];
  place.library = image_.texts[library];
  image_.locations.push_back(std::move(place));
  return note_copied(image_.locations.back());
}

bool ImageTables::read_name(FileBytesReader& in) {
  const std::uint8_t kind = in.byte();
  const std::uint64_t owner = in.number();
  const std::uint64_t field = in.number();
  const std::uint64_t place = in.number();
  if (kind >= kRootKinds || !is_text(owner) || place > image_.locations.size()) return false;
  RootName name{.kind = static_cast<RootKind>(kind),
                .owner = image_.texts[owner],
                .field = static_cast<std::uint32_t>(field - 1)};
  if (place != 0) name.place = image_.locations[place - 1];
  image_.root_names.push_back(std::move(name));
  return note_copied(image_.root_names.back().place);
}

bool ImageTables::read_site(FileBytesReader& in) {
  const std::uint64_t count = in.number();
  if (count > kMaxSiteLocations) return false;
  std::vector<std::uint32_t> site;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    const std::uint64_t location = in.number();
    if (location >= image_.locations.size()) return false;
    site.push_back(static_cast<std::uint32_t>(location));
  }
  image_.sites.push_back(std::move(site));
  return true;
}

bool ImageTables::read_shape(FileBytesReader& in) {
  const std::uint8_t tag = in.byte();
  const std::uint8_t form = in.byte();
  const std::uint64_t name = in.number();
  FileShape shape{.form = static_cast<ShapeForm>(form), .words = in.number()};
  if (form > static_cast<int>(ShapeForm::kGuessed) || !is_text(name) || shape.words == 0 ||
      shape.words > kMaxFields) {
    return false;
  }
  if (has_mask(shape.form)) {
    const std::uint64_t mask = in.number();
    const std::uint64_t fields = std::min(shape.words - 1, kMaskedFields);
    if (mask >> fields != 0) return false;
    shape.mask = static_cast<std::uint32_t>(mask);
  }
  if (shape.form == ShapeForm::kGuessed) {
    shape.guesses = guesses_;
    guesses_ += static_cast<std::uint32_t>(std::popcount(shape.mask));
    if (guesses_ > kMaxGuesses) return false;
  }
  std::uint32_t site = BlockShape::kNoSite;
  if (shape.form == ShapeForm::kFiber) {
    const std::uint64_t number = in.number();
    if (number > image_.sites.size()) return false;
    site = static_cast<std::uint32_t>(number) - 1;  // 0: none
  }
  const std::uint64_t outside = tag == kCustomTag ? in.number() : 0;
  if (outside > kMaxOutsideBytes) return false;
  const auto number = static_cast<std::uint32_t>(name);
  const auto [at, added] =
      image_shapes_.try_emplace({tag, number, shape.words, site, outside}, image_.shapes.size());
  if (added) image_.shapes.push_back({tag, number, shape.words, site, outside});
  shape.shape = at->second;
  shapes_.push_back(shape);
  return true;
}

bool ImageTables::read_interface(FileBytesReader& in) {
  const std::string_view unit = in.text();
  const std::string_view digest = in.text();
  if (unit.empty() || unit.size() > kMaxUnitName || digest.size() != kDigestBytes ||
      image_.interfaces.size() >= kMaxLinkedUnits) {
    return false;
  }
  return image_.interfaces.emplace(unit, digest).second;
}

bool ImageTables::read_assertion(FileBytesReader& in) {
  const std::uint8_t kind = in.byte();
  const std::uint64_t name = in.number();
  if (kind >= kAssertionKinds || !is_text(name) || image_.assertions.size() == kMaxAssertions) {
    return false;
  }
  HeapAssertion assertion{.kind = static_cast<AssertionKind>(kind), .name = image_.texts[name]};
  assertion.is_whole = in.byte() != 0;
  assertion.not_due = in.number();
  assertion.unchecked = in.number();
  if (assertion.kind == AssertionKind::kRegion) {
    assertion.max_bytes = in.number();
    const std::uint64_t begin_us = in.number(), end_us = in.number();
    if (begin_us > kMaxAgeUs || end_us > begin_us) return false;
    assertion.begin_age_ns = begin_us * 1000;
    assertion.end_age_ns = end_us * 1000;
  }
  image_.assertions.push_back(std::move(assertion));
  return true;
}

bool ImageTables::read_count(FileBytesReader& in) {
  const std::uint8_t kind = in.byte();
  const std::uint8_t tag = in.byte();
  const std::uint64_t fields = in.number();
  const std::uint64_t blocks = in.number();
  if (fields > kMaxFields || kind > static_cast<int>(CountKind::kFragments)) return false;
  if (static_cast<CountKind>(kind) == CountKind::kFragments) {
    image_.fragments += blocks;
  } else {
    (static_cast<CountKind>(kind) == CountKind::kDead ? image_.dead : image_.free)
        .add(tag, fields, blocks);
  }
  return true;
}

}  // namespace memprofd
