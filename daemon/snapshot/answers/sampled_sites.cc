// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/sampled_sites.h"

#include <algorithm>
#include <map>

#include "daemon/model/location.h"
#include "daemon/model/size_bucket.h"
#include "daemon/snapshot/answers/root_tree.h"

namespace memprofd {

SampledSum sum_of(const HeapImage& image, const SampledBlock& sampled) {
  SampledSum sum{.blocks = 1};
  const double rate = image.info.sampling_rate;
  if (!(rate > 0)) return sum;
  const std::uint64_t words =
      sampled.block == HeapImage::kNoBlock ? 0 : image.shape(sampled.block).words;
  if (words > SizeBucket::kFineWords) {
    sum.estimate.add(1, weight_of_block(static_cast<double>(words), rate));
  } else {
    sum.estimate.add(sampled.samples, weight_of_word(rate));
  }
  return sum;
}

SampledState state_of(const ShortestPaths& paths, const SampledBlock& sampled) {
  if (sampled.block == HeapImage::kNoBlock) return SampledState::kDead;
  return paths.is_reachable(sampled.block) ? SampledState::kReachable : SampledState::kGarbage;
}

std::string site_name(const HeapImage& image, std::uint32_t site) {
  const auto& frames = image.sites[site];
  if (frames.empty()) return "(unknown)";
  auto named = frames.begin();
  if (image.site_frame == SiteFrame::kApplication) {
    named = std::ranges::find_if_not(
        frames, [&](std::uint32_t frame) { return is_library_code(image.locations[frame]); });
    if (named == frames.end()) named = frames.begin();
  }
  return place_text(image.locations[*named]);
}

std::vector<SiteRow> sum_sites(const HeapImage& image, const ShortestPaths& paths) {
  return sum_sites(image, paths, std::vector<bool>(image.sites.size(), true));
}

std::vector<SiteRow> sum_sites(const HeapImage& image, const ShortestPaths& paths,
                               const std::vector<bool>& wanted) {
  std::vector<SiteSums> by_site(image.sites.size());
  std::vector<bool> is_seen(image.sites.size());
  for (const SampledBlock& sampled : image.sampled) {
    by_site[sampled.site].add(state_of(paths, sampled), sum_of(image, sampled));
    is_seen[sampled.site] = wanted[sampled.site];
  }
  std::map<std::string, SiteSums> by_name;
  for (std::uint32_t site = 0; site < by_site.size(); ++site) {
    if (!is_seen[site]) continue;
    SiteSums& sums = by_name[site_name(image, site)];
    for (int i = 0; i < kSampledStates; ++i) sums.by_state[i] += by_site[site].by_state[i];
  }
  std::vector<SiteRow> rows;
  for (auto& [name, sums] : by_name) rows.push_back({name, sums});
  std::stable_sort(rows.begin(), rows.end(), [](const SiteRow& a, const SiteRow& b) {
    return a.sums.reachable().estimate.words > b.sums.reachable().estimate.words;
  });
  return rows;
}

}  // namespace memprofd
