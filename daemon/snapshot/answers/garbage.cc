// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/garbage.h"

#include <algorithm>
#include <functional>
#include <map>

namespace memprofd {
namespace {

bool has_age(const SampledBlock& sampled) { return sampled.age_ns != SampledBlock::kNoAge; }

void add(const HeapImage& image, const SampledBlock& sampled, GarbageRow& row) {
  const SampledSum sum = sum_of(image, sampled);
  row.sum += sum;
  if (image.is_young(sampled.block)) row.young += sum;
  if (has_age(sampled)) row.ages.add(sampled.age_ns, sum.estimate.words);
  const auto wait = longest_wait_ns(image, sampled);
  if (row.sum.blocks == sum.blocks) {
    row.longest_wait_ns = wait;
  } else if (row.longest_wait_ns) {
    row.longest_wait_ns = wait ? std::max(*row.longest_wait_ns, *wait) : wait;
  }
}

}  // namespace

void SampledAges::sort() { std::ranges::sort(ages_); }

std::optional<std::uint64_t> SampledAges::longest() const {
  if (ages_.empty()) return std::nullopt;
  return ages_.back().first;
}

std::optional<std::uint64_t> SampledAges::quantile(double q) const {
  double all = 0;
  for (const auto& [age, words] : ages_) all += words;
  double so_far = 0;
  for (const auto& [age, words] : ages_) {
    so_far += words;
    if (so_far >= all * q) return age;
  }
  return longest();
}

std::optional<std::uint64_t> longest_wait_ns(const HeapImage& image, const SampledBlock& sampled) {
  std::optional<std::uint64_t> longest;
  if (has_age(sampled)) longest = sampled.age_ns;
  const std::uint64_t of_heap = image.info.longest_wait_ns;
  if (of_heap == 0 || image.is_young(sampled.block)) return longest;
  return std::min(longest.value_or(of_heap), of_heap);
}

Garbage find_garbage(const HeapImage& image, const ShortestPaths& paths) {
  Garbage garbage;
  for (std::uint32_t block = 0; block < image.blocks(); ++block) {
    if (!paths.is_reachable(block)) garbage.all.add({1, image.shape(block).words});
  }
  for (const BlockRange& range : image.young) {
    for (std::uint32_t block = range.first; block < range.end; ++block) {
      if (!paths.is_reachable(block)) garbage.young.add({1, image.shape(block).words});
    }
  }
  for (const SizeRow& row : image.dead.rows()) {
    garbage.dead.add({row.blocks, row.blocks * (row.fields + 1)});
  }
  std::map<std::string, GarbageRow> by_name;
  for (const SampledBlock& sampled : image.sampled) {
    if (state_of(paths, sampled) != SampledState::kGarbage) continue;
    add(image, sampled, by_name[site_name(image, sampled.site)]);
  }
  for (auto& [name, row] : by_name) {
    row.name = name;
    row.ages.sort();
    garbage.sites.push_back(std::move(row));
  }
  std::ranges::stable_sort(garbage.sites, std::greater(),
                           [](const GarbageRow& row) { return row.sum.estimate.words; });
  return garbage;
}

}  // namespace memprofd
