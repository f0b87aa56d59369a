// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/image_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "daemon/snapshot/answers/retained.h"
#include "daemon/snapshot/answers/shortest_paths.h"

namespace memprofd {
namespace {

// Counts roots without the blocks below them.
std::vector<NamedCount> root_counts(const RetainedTable& table) {
  std::vector<NamedCount> roots;
  for (std::uint32_t i = 1; i < table.rows.size(); ++i) {
    const RetainedRow& row = table.rows[i];
    if (row.what == RetainedRow::What::kBlocks) continue;
    roots.push_back({table.full_name(i), {row.blocks, row.words}});
  }
  return roots;
}

std::vector<DiffRow> joined(const std::vector<NamedCount>& before,
                            const std::vector<NamedCount>& after) {
  std::map<std::string, DiffRow> by_name;
  for (const NamedCount& row : before) by_name[row.name].before.add(row.count);
  for (const NamedCount& row : after) by_name[row.name].after.add(row.count);
  std::vector<DiffRow> rows;
  for (auto& [name, row] : by_name) {
    if (row.before == row.after) continue;
    row.name = name;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const DiffRow& a, const DiffRow& b) {
    return a.growth_words() > b.growth_words();
  });
  return rows;
}

std::vector<SiteDiffRow> joined_sites(const ImageSummary& before, const ImageSummary& after,
                                      bool same_process) {
  std::map<std::string, SiteDiffRow> by_name;
  for (const SiteRow& row : before.sites) by_name[row.name].before += row.sums.reachable();
  for (const SiteRow& row : after.sites) by_name[row.name].after += row.sums.reachable();
  if (same_process) {
    absl::flat_hash_set<std::uint64_t> known;
    for (const SampledSummary& sampled : before.sampled) known.insert(sampled.sample_id);
    for (const SampledSummary& sampled : after.sampled) {
      if (known.contains(sampled.sample_id)) by_name[sampled.site].stayed += sampled.sum;
    }
  }
  std::vector<SiteDiffRow> rows;
  for (auto& [name, row] : by_name) {
    if (row.before.blocks == 0 && row.after.blocks == 0) continue;
    row.name = name;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const SiteDiffRow& a, const SiteDiffRow& b) {
    return a.growth_words() > b.growth_words();
  });
  return rows;
}

}  // namespace

double SiteDiffRow::growth_stderr_bytes() const {
  const double variance = before.estimate.variance_words2 + after.estimate.variance_words2 -
                          2 * stayed.estimate.variance_words2;
  return std::sqrt(std::max(0.0, variance)) * kBytesPerWord;
}

ImageSummary summarize(HeapImage& image) {
  ImageSummary summary{.info = image.info};
  {
    const ShortestPaths paths(image);
    ImageCensus census = count_image(image, paths);
    summary.total = census.total;
    summary.free = census.free;
    summary.types = census.types;
    for (CensusRow& row : census.by_class) {
      summary.classes.push_back({std::move(row.name), row.reachable});
    }
    summary.sites = sum_sites(image, paths);
    for (const SampledBlock& sampled : image.sampled) {
      if (state_of(paths, sampled) != SampledState::kReachable) continue;
      summary.sampled.push_back(
          {sampled.sample_id, site_name(image, sampled.site), sum_of(image, sampled)});
    }
  }
  summary.roots = root_counts(find_retained(image, {.depth = 1}));
  return summary;
}

ImageDiff compare_images(const ImageSummary& before, const ImageSummary& after) {
  ImageDiff diff;
  diff.same_process =
      before.info.pid == after.info.pid && before.info.program == after.info.program;
  diff.totals = {{"reachable", before.total.reachable, after.total.reachable},
                 {"garbage", before.total.garbage, after.total.garbage},
                 {"dead", before.total.dead, after.total.dead},
                 {"free", before.free, after.free}};
  diff.roots = joined(before.roots, after.roots);
  diff.classes = joined(before.classes, after.classes);
  diff.sites = joined_sites(before, after, diff.same_process);
  return diff;
}

}  // namespace memprofd
