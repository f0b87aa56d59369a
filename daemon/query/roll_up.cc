// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/roll_up.h"

#include <numeric>

namespace memprofd {
namespace {

constexpr std::uint32_t kNotChosen = 0;

std::vector<double> median_lifetimes(const std::vector<Counters>& groups) {
  std::vector<double> result;
  result.reserve(groups.size());
  for (const Counters& group : groups) {
    result.push_back(measure_value(group, Measure::kLifetime));
  }
  return result;
}

}  // namespace

GroupedRows::GroupedRows(std::span<const ProfileRow> rows, Symbolizer& symbolizer,
                         const LocationMatcher* hidden, GroupBy by, SiteFrame site_frame)
    : rows_(rows), frames_(symbolizer, hidden, site_frame), grouper_(frames_, by) {
  group_of_row_.reserve(rows.size());
  for (const ProfileRow& row : rows) {
    group_of_row_.push_back(
        static_cast<std::uint32_t>(grouper_.group_of(row.alloc_class, *row.callstack)));
  }
}

std::vector<double> GroupedRows::values(Measure measure) const {
  if (!measure_row(measure).is_sum()) {
    std::vector<Counters> groups(grouper_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      groups[group_of_row_[row]] += rows_[row].counters;
    }
    return median_lifetimes(groups);
  }
  std::vector<double> result(grouper_.size());
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    result[group_of_row_[row]] += measure_value(rows_[row].counters, measure);
  }
  return result;
}

std::vector<Group> GroupedRows::sums(const std::vector<std::size_t>& chosen, Measure measure,
                                     RowTest counts) const {
  std::vector<std::uint32_t> place(grouper_.size(), kNotChosen);  // index in chosen, plus 1
  std::vector<Group> groups(chosen.size());
  std::vector<double> weights(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    place[chosen[i]] = static_cast<std::uint32_t>(i) + 1;
    static_cast<GroupName&>(groups[i]) = grouper_.name(chosen[i]);
    static_cast<GroupCounts&>(groups[i]) = nothing();
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::uint32_t at = place[group_of_row_[i]];
    const ProfileRow& row = rows_[i];
    if (at == kNotChosen || !counts(row)) continue;
    Group& group = groups[at - 1];
    group.add_class(row.alloc_class, row.counters);
    const double weight = measure_value(row.counters, measure);
    if (group.heaviest != nullptr && weight <= weights[at - 1]) continue;
    weights[at - 1] = weight;
    group.heaviest = row.callstack;
  }
  return groups;
}

std::vector<Group> GroupedRows::all_sums(RowTest counts) const {
  std::vector<std::size_t> all(grouper_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return sums(all, Measure::kAllocated, counts);
}

GroupCounts GroupedRows::nothing() const {
  GroupCounts result;
  result.unseen = unseen_;
  return result;
}

GroupCounts GroupedRows::total() const {
  GroupCounts result = nothing();
  for (const ProfileRow& row : rows_) result.add_class(row.alloc_class, row.counters);
  return result;
}

GroupResult roll_up(const TargetProfile& profile, const GroupQuery& query) {
  GroupedRows rows(profile, query.group_by);
  GroupResult result;
  result.n_groups = rows.grouper().size();
  result.total = rows.total();
  result.groups =
      rows.sums(rows.grouper().largest(rows.values(query.order), query.limit), query.order);
  if (!query.with_callstack && !group_row(query.group_by).whole_callstack) return result;
  for (Group& group : result.groups) group.set_callstack(rows.frames());
  return result;
}

}  // namespace memprofd
