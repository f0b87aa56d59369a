// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/block_class.h"

#include <fmt/core.h>

#include <utility>

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
  if (shape.tag == kAbstractTag && shape.name != 0) return {image.texts[shape.name]};
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
      return "abstract";
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

BlockClasses::BlockClasses(const HeapImage& image) : image_(image) {
  add("array", 0, true);
  add_shapes();
  if (image.has_types()) add_types();
}

std::uint32_t BlockClasses::add(std::string text, std::uint64_t fields, bool is_array) {
  const auto [at, is_new] = known_.try_emplace(text, size());
  if (is_new) {
    texts_.push_back(std::move(text));
    fields_.push_back(fields);
    is_array_.push_back(is_array);
  }
  return at->second;
}

void BlockClasses::add_shapes() {
  const bool domains = has_domains(image_);
  by_shape_.reserve(image_.shapes.size());
  for (const BlockShape& shape : image_.shapes) {
    if (shape.tag == 0 && shape.words - 1 > kMaxFieldsOfRecord) {
      by_shape_.push_back(kArray);
      continue;
    }
    ClassName name = name_of(image_, shape, domains);
    by_shape_.push_back(add(std::move(name.text), name.fields, false));
  }
}

// A closure has both the name of its function and a type.
void BlockClasses::add_types() {
  for (const BlockType& type : image_.types) {
    by_type_.push_back(type.is_function ? kArray : add(type.name, type.fields, type.is_array));
    if (type.is_function || type.name.empty()) continue;
    const auto [at, is_new] = labels_.try_emplace(by_type_.back(), type.labels);
    if (!is_new && at->second != type.labels) at->second.clear();
  }
  for (std::uint32_t block = 0; block < image_.blocks(); ++block) {
    const BlockType& type = image_.types[image_.type(block)];
    if (!type.is_function) continue;
    const auto [at, is_new] = functions_.try_emplace(image_.shape_of[block], kArray);
    if (!is_new) continue;
    const std::uint32_t by_shape = by_shape_[image_.shape_of[block]];
    at->second = type.name.empty() ? by_shape : add(texts_[by_shape] + " : " + type.name, 0, false);
  }
}

const std::string& BlockClasses::label(std::uint32_t block_class, std::uint64_t field) const {
  static const std::string none;
  const auto found = labels_.find(block_class);
  const bool is_known = found != labels_.end() && field < found->second.size();
  return is_known ? found->second[field] : none;
}

std::uint32_t BlockClasses::of_type(std::uint32_t type, std::uint32_t block) const {
  if (!image_.types[type].is_function) return by_type_[type];
  return functions_.find(image_.shape_of[block])->second;
}

std::uint32_t BlockClasses::of(std::uint32_t block) const {
  const std::uint32_t known = without_fields_of(block);
  if (known == kArray || image_.type(block) != 0) return known;
  const BlockShape& shape = image_.shape(block);
  const bool is_unsure = shape.tag == 0 && shape.words - 1 >= kFewestFieldsOfArray;
  return is_unsure && holds_one_shape(block) ? kArray : known;
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
