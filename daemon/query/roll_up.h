// SPDX-License-Identifier: Apache-2.0
// Groups rows by site or another key, on each read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/history/profile.h"
#include "daemon/model/measure.h"
#include "daemon/query/group.h"
#include "daemon/query/grouper.h"

namespace memprofd {

struct GroupQuery {
  GroupBy group_by = GroupBy::kSite;
  Measure order = Measure::kLive;
  std::size_t limit = 0;  // 0: all
  bool with_callstack = true;
};

struct GroupResult {
  // Largest first; ties by name, so that equal inputs give equal outputs.
  std::vector<Group> groups;
  GroupCounts total;         // sum over all groups, including those beyond the limit
  std::size_t n_groups = 0;  // ignores the limit
};

GroupResult roll_up(const TargetProfile& profile, const GroupQuery& query);
// Rows with their groups. Most queries rank ten thousand groups and show a hundred, so all counts
// are summed only for the groups that are shown.
class GroupedRows {
 public:
  // All arguments must outlive this. hidden: null if no frame is hidden.
  GroupedRows(std::span<const ProfileRow> rows, Symbolizer& symbolizer,
              const LocationMatcher* hidden, GroupBy by,
              SiteFrame site_frame = SiteFrame::kInnermost);
  GroupedRows(const TargetProfile& profile, GroupBy by)
      : GroupedRows(profile.rows, *profile.symbolizer, profile.hidden.get(), by,
                    profile.site_frame) {
    unseen_ = profile.unseen;
  }
  GroupedRows(const GroupedRows&) = delete;
  GroupedRows& operator=(const GroupedRows&) = delete;

  VisibleFrames& frames() { return frames_; }
  const Grouper& grouper() const { return grouper_; }
  std::size_t group_of_row(std::size_t row) const { return group_of_row_[row]; }

  // One value per group.
  std::vector<double> values(Measure measure) const;
  // Selects the rows that count.
  using RowTest = bool (*)(const ProfileRow&);
  static bool any_row(const ProfileRow&) { return true; }
  // The sums of the chosen groups, in that order. heaviest is determined by the measure, and null
  // if no row of the group counts.
  std::vector<Group> sums(const std::vector<std::size_t>& chosen, Measure measure,
                          RowTest counts = any_row) const;
  // The sums of all groups, indexed by group.
  std::vector<Group> all_sums(RowTest counts = any_row) const;
  GroupCounts total() const;
  // The counts of a group without rows.
  GroupCounts nothing() const;

 private:
  const std::span<const ProfileRow> rows_;
  VisibleFrames frames_;
  Grouper grouper_;
  std::vector<std::uint32_t> group_of_row_;
  UnseenWords unseen_;
};

}  // namespace memprofd
