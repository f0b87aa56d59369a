// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/diff.h"

#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/util/sort_and_cut.h"

namespace memprofd {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// One side of a difference.
struct Side {
  Side(const TargetProfile& profile, const DiffQuery& query)
      : rows(profile, query.group_by), values(rows.values(query.order)) {
    if (!query.per_second || !measure_row(query.order).is_flow()) return;
    const double seconds = profile.range.seconds();
    scale = seconds > 0 ? 1 / seconds : 0;
  }
  double value(std::size_t group) const { return group == kNone ? 0 : scale * values[group]; }

  GroupedRows rows;
  std::vector<double> values;  // by group
  double scale = 1;
};

// The groups of both sides that have the same name.
struct Pair {
  GroupName name;
  std::size_t base = kNone;
  std::size_t other = kNone;
  double change = 0;
};

std::vector<Pair> join(const Side& base, const Side& other) {
  std::vector<Pair> pairs;
  absl::flat_hash_map<GroupName, std::size_t> by_name;
  by_name.reserve(base.rows.grouper().size());
  for (std::size_t group = 0; group < base.rows.grouper().size(); ++group) {
    pairs.push_back({.name = base.rows.grouper().name(group), .base = group});
    by_name.emplace(pairs.back().name, group);
  }
  for (std::size_t group = 0; group < other.rows.grouper().size(); ++group) {
    GroupName name = other.rows.grouper().name(group);
    if (const auto known = by_name.find(name); known != by_name.end()) {
      pairs[known->second].other = group;
    } else {
      pairs.push_back({.name = std::move(name), .other = group});
    }
  }
  for (Pair& pair : pairs) pair.change = other.value(pair.other) - base.value(pair.base);
  return pairs;
}

// Largest absolute change first, ties by name; at most limit (0: all).
std::vector<Pair> largest(const std::vector<Pair>& pairs, std::size_t limit) {
  std::vector<const Pair*> order;  // pairs are large
  order.reserve(pairs.size());
  for (const Pair& pair : pairs) order.push_back(&pair);
  sort_and_cut(order, limit, [](const Pair* a, const Pair* b) {
    const double x = std::abs(a->change), y = std::abs(b->change);
    return x != y ? x > y : a->name < b->name;
  });
  std::vector<Pair> result;
  result.reserve(order.size());
  for (const Pair* pair : order) result.push_back(*pair);
  return result;
}

// Returns the counts of one side, by pair; only the name if that side lacks the group.
std::vector<Group> counts_of(Side& side, const std::vector<Pair>& pairs, std::size_t Pair::*member,
                             const DiffQuery& query) {
  std::vector<std::size_t> chosen;
  for (const Pair& pair : pairs) {
    if (pair.*member != kNone) chosen.push_back(pair.*member);
  }
  std::vector<Group> sums = side.rows.sums(chosen, query.order);
  std::vector<Group> result;
  result.reserve(pairs.size());
  auto next = sums.begin();
  for (const Pair& pair : pairs) {
    if (pair.*member == kNone) {
      static_cast<GroupName&>(result.emplace_back()) = pair.name;
      static_cast<GroupCounts&>(result.back()) = side.rows.nothing();
    } else {
      result.push_back(std::move(*next++));
    }
    if (!query.with_callstack && !group_row(query.group_by).whole_callstack) continue;
    result.back().set_callstack(side.rows.frames());
  }
  return result;
}

void set_change(GroupDiff& diff, const Side& base, const Side& other, Measure measure) {
  const double before = base.scale * measure_value(diff.base.counters, measure);
  const double after = other.scale * measure_value(diff.other.counters, measure);
  diff.change = after - before;
  diff.change_stderr = std::hypot(other.scale * measure_stderr(diff.other, measure),
                                  base.scale * measure_stderr(diff.base, measure));
  if (!measure_row(measure).is_sum()) return;
  diff.change_limits =
      difference_limits(before, measure_limits(diff.base, measure).scaled(base.scale), after,
                        measure_limits(diff.other, measure).scaled(other.scale));
}

}  // namespace

DiffResult diff(const TargetProfile& base_profile, const TargetProfile& other_profile,
                const DiffQuery& query) {
  Side base(base_profile, query);
  Side other(other_profile, query);
  DiffResult result;
  static_cast<GroupCounts&>(result.total.base) = base.rows.total();
  static_cast<GroupCounts&>(result.total.other) = other.rows.total();
  set_change(result.total, base, other, query.order);
  std::vector<Pair> pairs = join(base, other);
  result.n_groups = pairs.size();
  pairs = largest(pairs, query.limit);
  std::vector<Group> bases = counts_of(base, pairs, &Pair::base, query);
  std::vector<Group> others = counts_of(other, pairs, &Pair::other, query);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    GroupDiff& pair = result.diffs.emplace_back();
    pair.base = std::move(bases[i]);
    pair.other = std::move(others[i]);
    set_change(pair, base, other, query.order);
  }
  return result;
}

}  // namespace memprofd
