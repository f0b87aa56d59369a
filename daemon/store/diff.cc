#include "daemon/store/diff.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace memprofd {
namespace {

bool by_name(const Group& a, const Group& b) { return a.name() < b.name(); }

// Groups are large: moved once.
std::vector<Group> sorted_by_name(std::vector<Group> groups) {
  std::vector<Group*> order;
  order.reserve(groups.size());
  for (Group& group : groups) order.push_back(&group);
  std::sort(order.begin(), order.end(),
            [](const Group* a, const Group* b) { return by_name(*a, *b); });
  std::vector<Group> sorted;
  sorted.reserve(groups.size());
  for (Group* group : order) sorted.push_back(std::move(*group));
  return sorted;
}

bool of_a_span(Measure measure) {
  return measure != Measure::kLive && measure != Measure::kLiveObjects &&
         measure != Measure::kLifetime;
}

// One side of a difference.
struct Side {
  Side(const TargetProfile& profile, const DiffQuery& query) : frames(profile) {
    GroupResult all = roll_up(
        profile, {.group_by = query.group_by, .order = query.order, .with_callstack = false});
    groups = sorted_by_name(std::move(all.groups));
    total = std::move(all.total);
    if (!query.per_second || !of_a_span(query.order)) return;
    const double seconds = profile.range.seconds();
    scale = seconds > 0 ? 1 / seconds : 0;
  }

  VisibleFrames frames;
  std::vector<Group> groups;
  GroupCounts total;
  double scale = 1;
};

Group nothing_of(const Group& group) {
  Group result;
  static_cast<GroupName&>(result) = group;
  return result;
}

// Pairs of groups with one name; both sides are sorted by it.
std::vector<GroupDiff> join(Side& base, Side& other) {
  std::vector<GroupDiff> result;
  result.reserve(std::max(base.groups.size(), other.groups.size()));
  auto b = base.groups.begin();
  auto o = other.groups.begin();
  while (b != base.groups.end() || o != other.groups.end()) {
    GroupDiff& pair = result.emplace_back();
    const bool has_base = b != base.groups.end() && (o == other.groups.end() || !by_name(*o, *b));
    const bool has_other = o != other.groups.end() && (b == base.groups.end() || !by_name(*b, *o));
    if (!has_base) pair.base = nothing_of(*o);
    if (!has_other) pair.other = nothing_of(*b);
    if (has_base) pair.base = std::move(*b++);
    if (has_other) pair.other = std::move(*o++);
  }
  return result;
}

void set_change(GroupDiff& diff, const Side& base, const Side& other, Measure measure) {
  diff.change = other.scale * measure_value(diff.other.counters, measure) -
                base.scale * measure_value(diff.base.counters, measure);
  diff.change_stderr = std::hypot(other.scale * measure_stderr(diff.other, measure),
                                  base.scale * measure_stderr(diff.base, measure));
}

void sort_and_cut(std::vector<GroupDiff>& diffs, std::size_t limit) {
  std::vector<std::size_t> order(diffs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const std::size_t n = limit == 0 ? diffs.size() : std::min(limit, diffs.size());
  // Equal ones stay as they are joined: by name.
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const double x = std::abs(diffs[a].change);
                      const double y = std::abs(diffs[b].change);
                      return x != y ? x > y : a < b;
                    });
  std::vector<GroupDiff> sorted;
  sorted.reserve(n);
  for (std::size_t i = 0; i < n; ++i) sorted.push_back(std::move(diffs[order[i]]));
  diffs = std::move(sorted);
}

}  // namespace

DiffResult diff(const TargetProfile& base, const TargetProfile& other, const DiffQuery& query) {
  Side base_side(base, query);
  Side other_side(other, query);
  DiffResult result;
  static_cast<GroupCounts&>(result.total.base) = std::move(base_side.total);
  static_cast<GroupCounts&>(result.total.other) = std::move(other_side.total);
  set_change(result.total, base_side, other_side, query.order);
  result.diffs = join(base_side, other_side);
  result.n_groups = result.diffs.size();
  for (GroupDiff& pair : result.diffs) set_change(pair, base_side, other_side, query.order);
  sort_and_cut(result.diffs, query.limit);
  if (!query.with_callstack && query.group_by != GroupBy::kCallstack) return result;
  for (GroupDiff& pair : result.diffs) {
    pair.base.set_callstack(base_side.frames);
    pair.other.set_callstack(other_side.frames);
  }
  return result;
}

}  // namespace memprofd
