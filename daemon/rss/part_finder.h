// SPDX-License-Identifier: Apache-2.0
// Finds the parts of a process's memory that mappings do not show: malloc's chunks, the OCaml heap,
// stacks of threads, tables of the runtime, each in a layer of extents.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "daemon/rss/extent_layer.h"
#include "daemon/rss/glibc_arenas.h"
#include "daemon/rss/malloc_walk.h"
#include "daemon/rss/mapping_classes.h"
#include "daemon/rss/ocaml_parts.h"
#include "daemon/rss/page_map.h"
#include "daemon/rss/resident_reader.h"

namespace memprofd {

inline constexpr std::chrono::seconds kChunkWalkTime{5};
// Maximum number of chunks for which an owner is searched.
inline constexpr std::size_t kMaxOwnedChunks = 1u << 22;

class PartFinder {
 public:
  // All arguments must outlive this. runtime: null without OCaml. max_kept: as in MallocOptions.
  // heap: as for OcamlParts.
  PartFinder(const ResidentReader& reader, const PageMap& pages, const OcamlRuntime* runtime,
             std::size_t max_kept, std::stop_token stop, const HeapMap* heap = nullptr);
  PartFinder(const PartFinder&) = delete;
  PartFinder& operator=(const PartFinder&) = delete;

  // Call this once.
  void find(const ClassifiedMappings& mappings);

  const std::vector<Arena>& arenas() const { return arenas_; }
  OcamlParts* ocaml() { return ocaml_ ? &*ocaml_ : nullptr; }
  MallocWalk& walk() { return walk_; }
  // Sealed layers, each above the previous one: stacks, malloc's chunks, cached chunks, tables,
  // channels, heaps.
  const ExtentLayer& stacks() const { return stacks_; }
  const ExtentLayer& tables() const { return tables_; }
  const ExtentLayer& channels() const { return channels_; }
  const ExtentLayer& heaps() const { return heaps_; }
  // False if reading ended before all was found.
  bool read_all() const { return read_all_; }
  // False if chunks in use may be OCaml's, or free, because not all of its lists or of malloc's
  // caches could be read.
  bool uses_known() const { return uses_known_; }
  // The class that is certain for memory of that class in the layers, or kNotRead.
  RssClass certain(RssClass kind) const;
  // Number of channels, stacks and the like by class; 0 for other classes.
  std::uint64_t number_of(RssClass kind) const;

 private:
  std::vector<AddressSpan> resident_runs(const AddressSpan& span) const;
  std::vector<AddressSpan> guarded(const ClassifiedMappings& mappings) const;
  void find_mapped(const ClassifiedMappings& mappings);
  void find_lost_pools(const ClassifiedMappings& mappings);

  const ResidentReader& reader_;
  const PageMap& pages_;
  std::optional<OcamlParts> ocaml_;
  MallocWalk walk_;
  std::vector<Arena> arenas_;
  ExtentLayer stacks_, tables_, channels_, heaps_;
  std::uint64_t thread_stacks_ = 0;
  bool read_all_ = false, uses_known_ = false;
};

}  // namespace memprofd
