// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/equal_strings.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

// Strings that programs write to: the bytes of Buffers, since OCaml 5.2 one block further.
absl::flat_hash_set<std::uint32_t> bytes_of_buffers(const HeapImage& image) {
  absl::flat_hash_set<std::uint32_t> bytes;
  for (const BufferUse& buffer : image.buffers) {
    for (const std::uint32_t held : image.edges.of(buffer.block)) {
      bytes.insert(held);
      const auto further = image.edges.of(held);
      bytes.insert(further.begin(), further.end());
    }
  }
  return bytes;
}

}  // namespace

std::vector<std::uint32_t> find_equal_strings(const HeapImage& image, const ShortestPaths& paths) {
  const auto of_buffers = bytes_of_buffers(image);
  const auto counts = [&](std::uint32_t block) {
    return image.shape(block).tag == kStringTag && paths.is_reachable(block) &&
           !of_buffers.contains(block) && image.types[image.type(block)].name != "bytes";
  };
  std::vector<std::uint32_t> equal;
  absl::flat_hash_set<std::string_view> known;
  for (const BlockContents& of : image.contents) {
    if (of.kept != of.length || !counts(of.block)) continue;
    if (!known.insert(image.bytes_of(of)).second) equal.push_back(of.block);
  }
  absl::flat_hash_set<std::pair<std::uint64_t, std::uint64_t>> known_prints;  // with their size
  for (const BlockFingerprint& of : image.fingerprints) {
    if (!counts(of.block)) continue;
    const std::pair print(of.value, image.shape(of.block).words);
    if (!known_prints.insert(print).second) equal.push_back(of.block);
  }
  std::ranges::sort(equal);
  return equal;
}

}  // namespace memprofd
