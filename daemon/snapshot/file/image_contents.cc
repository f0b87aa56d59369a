// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/image_contents.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

// Reads the number of the next block with contents; blocks are in ascending order.
template <typename Item>
bool next_block(FileBytesReader& in, std::uint64_t& block, const std::vector<Item>& before) {
  block += in.number();
  return in.ok() && block < HeapImage::kNoBlock && (before.empty() || block > before.back().block);
}

template <typename Item>
void drop_cut_off(std::vector<Item>& items, std::uint32_t blocks) {
  std::erase_if(items, [blocks](const Item& item) { return item.block >= blocks; });
}

}  // namespace

bool ImageContents::read(PieceKind kind, FileBytesReader& in, std::uint64_t& block) {
  if (kind == PieceKind::kContents) return read_contents(in, block);
  if (kind == PieceKind::kFingerprints) {
    if (!next_block(in, block, image_.fingerprints)) return false;
    image_.fingerprints.push_back({static_cast<std::uint32_t>(block), in.word()});
    return in.ok();
  }
  if (!next_block(in, block, image_.buffers)) return false;
  image_.buffers.push_back({static_cast<std::uint32_t>(block), in.number()});
  return in.ok();
}

bool ImageContents::read_contents(FileBytesReader& in, std::uint64_t& block) {
  if (!next_block(in, block, image_.contents)) return false;
  const std::uint64_t length = in.number();
  const std::string_view kept = in.text();
  if (!in.ok() || kept.size() > length || kept.size() > kMaxContentBytes) return false;
  image_.contents.push_back({.block = static_cast<std::uint32_t>(block),
                             .kept = static_cast<std::uint32_t>(kept.size()),
                             .length = length,
                             .begin = image_.content_bytes.size()});
  image_.content_bytes += kept;
  return true;
}

bool ImageContents::match_blocks() {
  drop_cut_off(image_.contents, image_.blocks());
  drop_cut_off(image_.fingerprints, image_.blocks());
  drop_cut_off(image_.buffers, image_.blocks());
  const auto tag = [this](const auto& item) { return image_.shape(item.block).tag; };
  return std::ranges::all_of(image_.contents, [&](const auto& of) { return has_room(of); }) &&
         std::ranges::all_of(image_.fingerprints,
                             [&](const auto& of) { return tag(of) == kStringTag; }) &&
         std::ranges::all_of(image_.buffers, [&](const auto& of) { return tag(of) == 0; });
}

bool ImageContents::has_room(const BlockContents& of) const {
  const BlockShape& shape = image_.shape(of.block);
  return (shape.tag == kStringTag || shape.tag == kFloatArrayTag) &&
         of.length <= (shape.words - 1) * kWordBytes;
}

}  // namespace memprofd
