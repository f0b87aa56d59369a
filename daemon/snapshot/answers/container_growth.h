// SPDX-License-Identifier: Apache-2.0
// Finds the variables of the program that have grown between two snapshots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// The memory that one root retains, such as a field of a module or a frame of a stack; or that
// several roots retain together.
struct Container {
  // "global Cache.table"; "global Cache.table, shared": reached from other roots too.
  std::string root;
  bool on_stack = false;
  std::string kind;           // "Hashtbl", "list", "Map or Set", or the class of the block
  bool has_entries = false;   // entries of the largest collection within a few steps of the root
  std::uint64_t entries = 0;  // bindings, elements
  std::uint64_t words = 0;    // retained
  // Site that allocated most of the retained memory, "Cache.add cache.ml:41"; empty: no samples.
  std::string site;
};

// Ordered by name. Changes the image only temporarily.
std::vector<Container> find_containers(HeapImage& image);

struct ContainerGrowth {
  Container container;       // its later state
  std::uint64_t words = 0;   // additional words
  std::int64_t entries = 0;  // additional entries, if both snapshots have entries
};

// Containers that retain more than before, the largest growth first. Omits growth below a fiftieth
// of the largest, and stacks that retained less than half as much before: what the program happened
// to be working on.
std::vector<ContainerGrowth> container_growth(const std::vector<Container>& before,
                                              const std::vector<Container>& after);

}  // namespace memprofd
