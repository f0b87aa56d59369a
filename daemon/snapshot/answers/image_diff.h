// SPDX-License-Identifier: Apache-2.0
// Compares two snapshots. Blocks move, so sums are compared: by root, by class, by site. Only
// sampled blocks can be recognised in a later snapshot of the same process, by their number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/census_store.h"
#include "daemon/snapshot/answers/image_census.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

struct SampledSummary {
  std::uint64_t sample_id = 0;
  std::string site;
  SampledSum sum;
};

// The part of a snapshot that is compared.
struct ImageSummary {
  ImageInfo info;
  CensusRow total;
  BlockCount free;
  TypedCount types;
  std::vector<NamedCount> roots;    // retained sizes: "globals", "globals / Cache / field 2"
  std::vector<NamedCount> classes;  // reachable ones
  std::vector<SiteRow> sites;
  std::vector<SampledSummary> sampled;  // reachable blocks
};

struct DiffRow {
  std::string name;
  BlockCount before;
  BlockCount after;

  std::int64_t growth_words() const {
    return static_cast<std::int64_t>(after.words) - static_cast<std::int64_t>(before.words);
  }
};

struct SiteDiffRow {
  std::string name;
  SampledSum before;  // reachable
  SampledSum after;
  SampledSum stayed;  // part of after that existed before; unknown for another process

  double growth_words() const { return after.estimate.words - before.estimate.words; }
  // One standard error of the growth in bytes. Blocks that stayed add nothing to it.
  double growth_stderr_bytes() const;
};

struct ImageDiff {
  bool same_process = false;
  std::vector<DiffRow> totals;  // always reachable, garbage, dead, free
  std::vector<DiffRow> roots;   // this and the next are ordered by growth, largest first, without
                                // unchanged rows
  std::vector<DiffRow> classes;
  std::vector<SiteDiffRow> sites;  // all sites
};

// Changes the image only temporarily.
ImageSummary summarize(HeapImage& image);
ImageDiff compare_images(const ImageSummary& before, const ImageSummary& after);

}  // namespace memprofd
