// SPDX-License-Identifier: Apache-2.0
// Which variable of the program has grown between two snapshots, and what it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// What one root keeps: a field of a module, a frame of a stack; or several roots together.
struct Container {
  // "global Cache.table"; "global Cache.table, shared": reached from other roots too.
  std::string root;
  std::string kind;           // "Hashtbl", "list", "Map or Set", or the class of the block
  bool has_entries = false;   // of the largest collection that the root leads to in a few steps
  std::uint64_t entries = 0;  // bindings, elements
  std::uint64_t words = 0;    // retained
  // Where most of what it keeps was allocated, "Cache.add cache.ml:41"; empty: nothing is sampled.
  std::string site;
};

// In the order of their names. The image is as before when this returns.
std::vector<Container> find_containers(HeapImage& image);

struct ContainerGrowth {
  Container container;       // as it is later
  std::uint64_t words = 0;   // more than before
  std::int64_t entries = 0;  // more, of those that have entries in both
};

// What retains more, the most grown first; without what has grown by less than a fiftieth of that.
std::vector<ContainerGrowth> container_growth(const std::vector<Container>& before,
                                              const std::vector<Container>& after);

}  // namespace memprofd
