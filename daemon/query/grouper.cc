// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/grouper.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "daemon/util/sort_and_cut.h"

namespace memprofd {
std::size_t Grouper::add(Member member) {
  groups_.push_back(member);
  return groups_.size() - 1;
}

Grouper::SiteKey Grouper::key_of(LocationId site) const {
  const Location& at = frames_.location(site);
  const SiteParts& parts = by_.parts;
  SiteKey key;
  if (parts.function) key.function = at.function;
  if (parts.file) key.file = at.file;
  if (parts.line) key.line = at.line;
  if (parts.unit) key.unit = compilation_unit(at.function, at.library);
  if (parts.library) key.library = at.library;
  return key;
}

std::size_t Grouper::group_of(LocationId site) {
  if (site.value() >= by_site_.size()) by_site_.resize(site.value() + 1);
  std::uint32_t& known = by_site_[site.value()];
  if (known == 0) {
    const auto [it, is_new] = by_key_.try_emplace(key_of(site), groups_.size());
    if (is_new) add({.site = site});
    known = static_cast<std::uint32_t>(it->second) + 1;
  }
  return known - 1;
}

std::size_t Grouper::group_of_path(const Callstack& callstack) {
  const auto [it, is_new] = by_path_.try_emplace(frames_.location_ids(callstack), groups_.size());
  if (is_new) add({.site = frames_.site(callstack), .path = &it->first});
  return it->second;
}

std::size_t Grouper::group_of_number(std::uint32_t number) {
  const auto [it, is_new] = by_number_.try_emplace(number, groups_.size());
  if (is_new) add({.number = number});
  return it->second;
}

std::size_t Grouper::group_of(const AllocClass& alloc_class, const Callstack& callstack) {
  if (by_.is_number()) return group_of_number(by_.number.of(alloc_class));
  return by_.whole_callstack ? group_of_path(callstack) : group_of(frames_.site(callstack));
}

GroupName Grouper::name(std::size_t group) const {
  const Member& member = groups_[group];
  GroupName name;
  name.group_by = by_.group_by;
  name.number = member.number;
  if (by_.is_number()) return name;
  const SiteKey key = key_of(member.site);
  name.location.function = key.function;
  name.location.file = key.file;
  name.location.line = key.line;
  name.location.library = key.library;
  name.unit = key.unit;
  if (member.path == nullptr) return name;
  name.path.reserve(member.path->size());
  for (const LocationId id : *member.path) name.path.push_back(&frames_.location(id));
  return name;
}

std::strong_ordering Grouper::compare(std::size_t a, std::size_t b) const {
  if (by_.is_number()) return groups_[a].number <=> groups_[b].number;
  const auto order = key_of(groups_[a].site) <=> key_of(groups_[b].site);
  return order != 0 || !by_.whole_callstack ? order : name(a) <=> name(b);
}

std::vector<std::size_t> Grouper::largest(std::vector<std::size_t> groups,
                                          const std::vector<double>& values,
                                          std::size_t limit) const {
  sort_and_cut(groups, limit, [&](std::size_t a, std::size_t b) {
    if (values[a] != values[b]) return values[a] > values[b];
    return compare(a, b) < 0;
  });
  return groups;
}

std::vector<std::size_t> Grouper::largest(const std::vector<double>& values,
                                          std::size_t limit) const {
  std::vector<std::size_t> all(size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return largest(std::move(all), values, limit);
}

}  // namespace memprofd
