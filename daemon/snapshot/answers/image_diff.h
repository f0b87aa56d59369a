// SPDX-License-Identifier: Apache-2.0
// Compares two snapshots. Blocks move, so sums are compared: by root, by class, by site. Only
// sampled blocks can be recognised by their number in a later snapshot of the same process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/census_book.h"
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
  SampledSum stayed;  // of after: was there before. Nothing is known of another process's.

  double growth_words() const { return after.estimate.words - before.estimate.words; }
  // One standard error of it, in bytes: what stayed is no difference, and adds nothing.
  double growth_stderr_bytes() const;
};

struct ImageDiff {
  bool same_process = false;
  std::vector<DiffRow> totals;  // reachable, garbage, dead, free: always these four
  std::vector<DiffRow> roots;   // from here on the largest growth first, without equal rows
  std::vector<DiffRow> classes;
  std::vector<SiteDiffRow> sites;  // all of them
};

// The image is as before when this returns.
ImageSummary summarize(HeapImage& image);
ImageDiff compare_images(const ImageSummary& before, const ImageSummary& after);

}  // namespace memprofd
