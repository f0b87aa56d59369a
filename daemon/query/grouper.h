// SPDX-License-Identifier: Apache-2.0
// Numbers the groups of rows.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "daemon/query/group.h"

namespace memprofd {

// Numbers groups densely in the order of their appearance. All rows must use the same frames; names
// are comparable across targets. Not thread-safe.
class Grouper {
 public:
  // frames must outlive this.
  Grouper(VisibleFrames& frames, GroupBy by) : frames_(frames), by_(group_row(by)) {}
  std::size_t group_of(const AllocClass& alloc_class, const Callstack& callstack);
  // The group of blocks allocated at a site; only for keys that consist of site parts.
  std::size_t group_of(LocationId site);
  std::size_t size() const { return groups_.size(); }

  GroupName name(std::size_t group) const;
  // Compares the groups by their names.
  std::strong_ordering compare(std::size_t a, std::size_t b) const;
  // The groups with the largest values, largest first, ties by name; at most limit (0: all).
  // values: indexed by group.
  std::vector<std::size_t> largest(std::vector<std::size_t> groups,
                                   const std::vector<double>& values, std::size_t limit) const;
  // Likewise for all groups.
  std::vector<std::size_t> largest(const std::vector<double>& values, std::size_t limit) const;

 private:
  using Path = std::vector<LocationId>;
  // One member, which represents its group.
  struct Member {
    LocationId site;
    std::uint32_t number = 0;    // the key's GroupNumber
    const Path* path = nullptr;  // for kCallstack: points into by_path_
  };
  // The parts that all sites of a group share; the symbolizer owns the texts.
  struct SiteKey {
    std::string_view function, file, unit, library;
    std::uint32_t line = 0;

    friend auto operator<=>(const SiteKey&, const SiteKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const SiteKey& key) {
      return H::combine(std::move(h), key.function, key.file, key.unit, key.library, key.line);
    }
  };

  std::size_t add(Member member);
  SiteKey key_of(LocationId site) const;
  std::size_t group_of_path(const Callstack& callstack);
  std::size_t group_of_number(std::uint32_t number);

  VisibleFrames& frames_;
  const GroupRow& by_;
  std::vector<Member> groups_;
  std::vector<std::uint32_t> by_site_;  // group + 1 by LocationId; 0: not seen yet
  absl::flat_hash_map<SiteKey, std::size_t> by_key_;
  absl::node_hash_map<Path, std::size_t> by_path_;
  absl::flat_hash_map<std::uint32_t, std::size_t> by_number_;
};

}  // namespace memprofd
