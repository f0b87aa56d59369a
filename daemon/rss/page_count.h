// SPDX-License-Identifier: Apache-2.0
// Sums pieces of memory by class into the numbers of an RssReport.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "daemon/rss/extent_layer.h"
#include "daemon/rss/mapping_classes.h"
#include "daemon/rss/ocaml_parts.h"
#include "daemon/rss/rss_report.h"

namespace memprofd {

class PageCount {
 public:
  // The report must outlive this and contain its arenas before anything is added.
  explicit PageCount(RssReport& report) : report_(report) {}

  // Adds addresses, whether they are resident or not.
  void add_size(const Extent& piece) { amounts(piece).size += piece.end - piece.begin; }
  void add(const Extent& piece, bool swapped);
  // Call this after everything was added. The runtime counts free memory but does not record where
  // it is. Blocks were written to, so their pages are resident or swapped out; the rest of the
  // resident pages is free space.
  void split_ocaml_heap(const OcamlCounts& counts);
  // Call this last. number_of: number of items of a class; 0: they are not counted.
  void make_parts(const PartNames& names, const std::function<std::uint64_t(RssClass)>& number_of);

 private:
  struct Amounts {
    std::uint64_t resident = 0, size = 0, swapped = 0;
  };
  Amounts& amounts(const Extent& piece) {
    return amounts_[{piece.kind, has_names(piece.kind) ? piece.name : 0}];
  }
  void add_in_arena(const Extent& piece, std::uint64_t bytes);

  RssReport& report_;
  std::map<std::pair<RssClass, std::uint32_t>, Amounts> amounts_;
};

}  // namespace memprofd
