// SPDX-License-Identifier: Apache-2.0
// Heap images built block by block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Sets the types of blocks from the first one on.
inline void set_types(HeapImage& image, const std::vector<std::uint32_t>& types) {
  for (std::size_t block = 0; block < types.size(); ++block) {
    BlockShape shape = image.shape(static_cast<std::uint32_t>(block));
    shape.type = types[block];
    const auto at = std::ranges::find(image.shapes, shape);
    image.shape_of[block] = static_cast<std::uint32_t>(at - image.shapes.begin());
    if (at == image.shapes.end()) image.shapes.push_back(shape);
  }
}

class ImageBuilder {
 public:
  ImageBuilder() {
    image_.info = {.program = "/srv/shop.exe",
                   .pid = 4242,
                   .ocaml_version = "5.3.0",
                   .unix_ns = 1'767'225'600'000'000'000,
                   .pause_ns = 2'300'000,
                   .sampling_rate = 0.01,
                   .complete = true};
  }

  // name: a closure's function, or a custom block's identifier.
  std::uint32_t block(std::uint64_t fields, unsigned tag = 0, const std::string& name = "") {
    const auto number = static_cast<std::uint32_t>(image_.shape_of.size());
    image_.shape_of.push_back(shape(fields + 1, tag, name));
    held_.emplace_back();
    return number;
  }
  std::uint32_t string(std::uint64_t words) { return block(words, 252); }
  std::uint32_t boxed_float() { return block(1, 253); }

  void point(std::uint32_t from, std::uint32_t field, std::uint32_t to) {
    held_[from].emplace(field, to);
  }
  // Call this in ascending order of blocks.
  void point_weakly(std::uint32_t from, std::uint32_t to) { image_.weak.push_back({from, to}); }
  // A list cell: a block of two fields, the second of which points to the next.
  std::uint32_t cell(std::uint32_t element, std::uint32_t next = HeapImage::kNoBlock) {
    const std::uint32_t cell = block(2);
    point(cell, 0, element);
    if (next != HeapImage::kNoBlock) point(cell, 1, next);
    return cell;
  }

  void root(const RootName& name, std::uint32_t block) {
    std::uint32_t number = 0;
    while (number < image_.root_names.size() && !(image_.root_names[number] == name)) ++number;
    if (number == image_.root_names.size()) image_.root_names.push_back(name);
    image_.roots.push_back({block, number});
  }
  void global(const std::string& module, std::uint32_t field, std::uint32_t block) {
    root({.kind = RootKind::kGlobal, .owner = module, .field = field}, block);
  }

  // A site by its callstack, innermost first: functions in files of their modules.
  std::uint32_t site(const std::vector<Location>& frames) {
    std::vector<std::uint32_t> numbers;
    for (const Location& frame : frames) {
      numbers.push_back(static_cast<std::uint32_t>(image_.locations.size()));
      image_.locations.push_back(frame);
    }
    image_.sites.push_back(numbers);
    return static_cast<std::uint32_t>(image_.sites.size() - 1);
  }
  void sample(std::uint32_t block, std::uint32_t samples, std::uint32_t site,
              std::uint64_t sample_id = 0, std::uint64_t age_ns = SampledBlock::kNoAge) {
    image_.sampled.push_back({block, samples, sample_id, site, age_ns});
  }

  // A string block with its contents; call this in ascending order.
  std::uint32_t text(const std::string& contents) {
    const std::uint32_t block = string(contents.size() / 8 + 1);
    put_contents(block, contents);
    return block;
  }
  void put_contents(std::uint32_t block, std::string_view contents) {
    image_.contents.push_back({.block = block,
                               .kept = static_cast<std::uint32_t>(contents.size()),
                               .length = contents.size(),
                               .begin = image_.content_bytes.size()});
    image_.content_bytes += contents;
  }

  HeapImage& image() { return image_; }  // for everything else
  HeapImage build() {
    image_.edges = {};
    image_.fields.clear();
    for (const auto& of_block : held_) {
      image_.edges.first.push_back(image_.edges.to.size());
      for (const auto& [field, to] : of_block) {
        image_.edges.to.push_back(to);
        image_.fields.push_back(
            static_cast<std::uint8_t>(field < HeapImage::kFarField ? field : HeapImage::kFarField));
      }
    }
    image_.edges.first.push_back(image_.edges.to.size());
    return image_;
  }

 private:
  std::uint32_t shape(std::uint64_t words, unsigned tag, const std::string& name) {
    const auto next = static_cast<std::uint32_t>(image_.shapes.size());
    const auto [at, is_new] = shapes_.try_emplace({words, tag, name}, next);
    if (!is_new) return at->second;
    std::uint32_t text = 0;
    if (!name.empty()) {
      text = static_cast<std::uint32_t>(image_.texts.size());
      image_.texts.push_back(name);
    }
    image_.shapes.push_back({static_cast<std::uint8_t>(tag), text, words});
    return next;
  }

  HeapImage image_;
  std::map<std::tuple<std::uint64_t, unsigned, std::string>, std::uint32_t> shapes_;
  std::vector<std::map<std::uint32_t, std::uint32_t>> held_;  // by block: field, block
};

}  // namespace memprofd
