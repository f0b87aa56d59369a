// SPDX-License-Identifier: Apache-2.0
// Roll-up of rows to sites and other groups, computed on read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/history/snapshot.h"
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
  GroupCounts total;         // of all groups, those beyond the limit included
  std::size_t n_groups = 0;  // without the limit
};

GroupResult roll_up(const TargetProfile& profile, const GroupQuery& query);
// Rows with their groups. Most questions rank ten thousand groups and show a
// hundred, so the counts of all are summed up for those that are shown only.
class GroupedRows {
 public:
  // All must outlive this. hidden: null when nothing is.
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

  // One per group.
  std::vector<double> values(Measure measure) const;
  // Selects the rows that count.
  using RowTest = bool (*)(const ProfileRow&);
  static bool any_row(const ProfileRow&) { return true; }
  // The sums of the chosen groups, in that order; heaviest: by the measure, null where no row of
  // the group counts.
  std::vector<Group> sums(const std::vector<std::size_t>& chosen, Measure measure,
                          RowTest counts = any_row) const;
  // The sums of all groups, by group.
  std::vector<Group> all_sums(RowTest counts = any_row) const;
  GroupCounts total() const;
  // The counts of a group of which there is no row.
  GroupCounts nothing() const;

 private:
  const std::span<const ProfileRow> rows_;
  VisibleFrames frames_;
  Grouper grouper_;
  std::vector<std::uint32_t> group_of_row_;
  UnseenWords unseen_;
};

}  // namespace memprofd
