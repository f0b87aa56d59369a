// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/block_class.h"

#include <fmt/core.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

struct ClassName {
  std::string text;
  std::uint64_t fields = 0;
};

ClassName name_of(const HeapImage& image, const BlockShape& shape, bool domains) {
  const std::uint64_t fields = shape.words - 1;
  const std::string what = tag_text(shape.tag, domains);
  if (what == "block") {
    if (shape.tag == 0) return {fmt::format("block({})", fields), fields};
    return {fmt::format("block({}, tag {})", fields, shape.tag), fields};
  }
  if (what == "object") return {fmt::format("object({})", fields), fields};
  if (shape.name != 0) return {what + " " + image.texts[shape.name]};
  return {what};
}

}  // namespace

std::string tag_text(unsigned tag, bool domains) {
  if (tag == kForcingTag && domains) return "lazy";
  if (tag == kContinuationTag && domains) return "continuation";
  switch (tag) {
    case kLazyTag:
      return "lazy";
    case kClosureTag:
      return "closure";
    case kObjectTag:
      return "object";
    case kForwardTag:
      return "forward";
    case kAbstractTag:
      return "abstract";  // a weak array or an ephemeron too
    case kStringTag:
      return "string";
    case kFloatTag:
      return "float";
    case kFloatArrayTag:
      return "float array";
    case kCustomTag:
      return "custom";
    default:
      return "block";
  }
}

bool has_domains(const HeapImage& image) {
  return image.info.ocaml_version.rfind("4.", 0) == std::string::npos;
}

BlockClasses::BlockClasses(const HeapImage& image) : image_(image), texts_{"array"}, fields_{0} {
  const bool domains = has_domains(image);
  absl::flat_hash_map<std::string, std::uint32_t> known;
  by_shape_.reserve(image.shapes.size());
  for (const BlockShape& shape : image.shapes) {
    if (shape.tag == 0 && shape.words - 1 > kMostFieldsOfRecord) {
      by_shape_.push_back(kArray);
      continue;
    }
    ClassName name = name_of(image, shape, domains);
    const auto [at, is_new] = known.try_emplace(name.text, size());
    by_shape_.push_back(at->second);
    if (!is_new) continue;
    texts_.push_back(std::move(name.text));
    fields_.push_back(name.fields);
  }
}

std::uint32_t BlockClasses::of(std::uint32_t block) const {
  const std::uint32_t by_shape = by_shape_[image_.shape_of[block]];
  const BlockShape& shape = image_.shape(block);
  const bool is_unsure = shape.tag == 0 && shape.words - 1 >= kFewestFieldsOfArray;
  return by_shape != kArray && is_unsure && holds_one_shape(block) ? kArray : by_shape;
}

bool BlockClasses::holds_one_shape(std::uint32_t block) const {
  const auto held = image_.edges.of(block);
  if (held.size() < 2) return false;
  const BlockShape& first = image_.shape(held[0]);
  for (const std::uint32_t other : held) {
    const BlockShape& shape = image_.shape(other);
    if (shape.tag != first.tag || shape.words != first.words) return false;
  }
  return true;
}

}  // namespace memprofd
