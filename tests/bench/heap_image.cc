// SPDX-License-Identifier: Apache-2.0
// heap_image FILE: prints the contents of a heap file as JSON: blocks and words, numbers of blocks
// by tag and size, roots by name, sampled blocks by site, blocks held by fibers by frame. Exit code
// 1 means that the file cannot be read.
#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <string>

#include "daemon/snapshot/dominators.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "tests/bench/heap_json.h"

namespace memprofd {
namespace {

// Quotes text that has no characters that JSON would have to escape.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' || c < ' ' ? '?' : c;
  return out + "\"";
}

void print_counts(const HeapImage& image) {
  SizeTable used;
  std::uint64_t words = 0;
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    const BlockShape& shape = image.shape(block);
    used.add(shape.tag, shape.words - 1);
    words += shape.words;
  }
  std::uint32_t young = 0;
  for (const BlockRange& range : image.young) young += range.end - range.first;
  fmt::print("\"complete\":{},\"blocks\":{},\"words\":{},\"young\":{},\"rows\":{},\"free\":{},",
             image.info.complete, image.blocks(), words, young, json(used), json(image.free));
  std::map<std::string, int> names;
  for (const std::uint32_t shape : image.shape_of) ++names[image.texts[image.shapes[shape].name]];
  std::string text;
  for (const auto& [name, count] : names) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", quoted(name), count);
  }
  fmt::print("\"names\":{{{}}},", text);
}

void print_roots(const HeapImage& image) {
  std::vector<std::uint32_t> entries;
  std::string text;
  for (const ImageRoot& root : image.roots) {
    const RootName& name = image.root_names[root.name];
    entries.push_back(root.block);
    text += fmt::format("{}[{},{},{},{},{}]", text.empty() ? "" : ",", static_cast<int>(name.kind),
                        quoted(name.owner),
                        name.field == RootName::kNoField ? -1 : static_cast<int>(name.field),
                        quoted(name.place.function), name.place.line);
  }
  const DominatorTree tree(image.edges, entries);
  fmt::print("\"reachable\":{},\"roots\":[{}],", tree.reachable(), text);
}

void print_samples(const HeapImage& image) {
  std::string text;
  for (const SampledBlock& sample : image.sampled) {
    const auto& site = image.sites[sample.site];
    const bool is_there = sample.block != HeapImage::kNoBlock;
    text += fmt::format("{}[{},{},{},{}]", text.empty() ? "" : ",", sample.sample_id,
                        sample.samples, is_there ? image.shape(sample.block).words : 0,
                        quoted(site.empty() ? "" : image.locations[site[0]].function));
  }
  fmt::print("\"rate\":{},\"samples\":[{}],", image.info.sampling_rate, text);
}

// Prints the number of blocks with each tag and size that a fiber's frame holds.
void print_fibers(const HeapImage& image) {
  std::map<std::string, int> held;
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    const BlockShape& shape = image.shape(block);
    if (shape.site == BlockShape::kNoSite) continue;
    for (std::uint64_t edge = image.edges.first[block]; edge < image.edges.first[block + 1];
         ++edge) {
      const auto& frames = image.sites[shape.site];
      const std::uint64_t frame = image.fields[edge] - (shape.words - 1);
      const BlockShape& to = image.shape(image.edges.to[edge]);
      const std::string function =
          frame < frames.size() ? image.locations[frames[frame]].function : "?";
      ++held[fmt::format("{},{},{},{}", quoted(image.texts[shape.name]), quoted(function), to.tag,
                         to.words - 1)];
    }
  }
  std::string text;
  for (const auto& [what, count] : held) {
    text += fmt::format("{}[{},{}]", text.empty() ? "" : ",", what, count);
  }
  fmt::print("\"fibers\":[{}]", text);
}

}  // namespace
}  // namespace memprofd

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: heap_image FILE\n");
    return 2;
  }
  const auto image = memprofd::read_heap_image(argv[1]);
  if (!image.ok()) {
    fmt::print(stderr, "heap_image: {}\n", std::string(image.status().message()));
    return 1;
  }
  fmt::print("{{");
  memprofd::print_counts(*image);
  memprofd::print_roots(*image);
  memprofd::print_samples(*image);
  memprofd::print_fibers(*image);
  fmt::print("}}\n");
  return 0;
}
