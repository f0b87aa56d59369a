// SPDX-License-Identifier: Apache-2.0
// Finds the variables of the program that have grown between two snapshots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// The memory that one root retains: a field of a module or a frame of a stack; or several roots
// together.
struct Container {
  // "global Cache.table"; "global Cache.table, shared": reached from other roots too.
  std::string root;
  std::string kind;           // "Hashtbl", "list", "Map or Set", or the class of the block
  bool has_entries = false;   // of the largest collection that the root leads to in a few steps
  std::uint64_t entries = 0;  // bindings, elements
  std::uint64_t words = 0;    // retained
  // Site that allocated most of the retained memory, "Cache.add cache.ml:41"; empty: no samples.
  std::string site;
};

// In the order of their names. The image is as before when this returns.
std::vector<Container> find_containers(HeapImage& image);

struct ContainerGrowth {
  Container container;       // as it is later
  std::uint64_t words = 0;   // more than before
  std::int64_t entries = 0;  // more, of those that have entries in both
};

// Containers that retain more, the largest growth first; those below a fiftieth of that are
// omitted.
std::vector<ContainerGrowth> container_growth(const std::vector<Container>& before,
                                              const std::vector<Container>& after);

}  // namespace memprofd
