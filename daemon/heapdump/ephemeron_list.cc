// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/ephemeron_list.h"

#include "daemon/snapshot/block_header.h"

namespace memprofd {
namespace {

// Contents of a word of memory; 0 if it cannot be read.
std::uint64_t word_at(const MemoryReader& memory, std::uint64_t address) {
  std::uint64_t value = 0;
  return address != 0 && memory.read_value(address, value).ok() ? value : 0;
}

// The first field of each ephemeron is the next one, or 0. The walk stops where a circle closes.
void follow(const MemoryReader& memory, std::uint64_t first, Ephemerons& ephemerons) {
  std::uint64_t value = word_at(memory, first);
  while (value > kWordBytes && value % kWordBytes == 0 &&
         ephemerons.blocks.size() < kMaxEphemerons &&
         ephemerons.blocks.insert(value - kWordBytes).second) {
    value = word_at(memory, value);
  }
}

}  // namespace

Ephemerons read_ephemerons(const MemoryReader& memory, const HeapLayout& layout,
                           std::span<const std::uint64_t> states) {
  Ephemerons ephemerons;
  if (layout.no_key == 0) return ephemerons;
  ephemerons.nothing = word_at(memory, layout.no_key);
  if (!layout.abi.domains) {
    follow(memory, layout.first_ephemeron, ephemerons);
    return ephemerons;
  }
  // struct caml_ephe_info of runtime/caml/weak.h: the list of ephemerons to mark, and that of
  // marked ones.
  for (const std::uint64_t state : states) {
    const std::uint64_t info = word_at(memory, state + layout.abi.ephemerons);
    if (info == 0) continue;
    follow(memory, info, ephemerons);
    follow(memory, info + kWordBytes, ephemerons);
  }
  return ephemerons;
}

}  // namespace memprofd
