// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/callers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/query/frame_filter.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Counters of the callers, or of the callees, of the queried function; by function.
class Edges {
 public:
  // Counts the edge to a function once per row.
  void see(std::size_t function) {
    if (function >= last_row_.size()) last_row_.resize(function + 1);
    if (std::exchange(last_row_[function], row_) != row_) seen_.push_back(function);
  }
  // Ends a row.
  void add(const ProfileRow& row) {
    for (const std::size_t function : seen_) {
      if (function >= sums_.size()) sums_.resize(function + 1);
      if (!sums_[function]) sums_[function].emplace();
      sums_[function]->add_class(row.alloc_class, row.counters);
    }
    seen_.clear();
    ++row_;
  }
  std::vector<Group> finish(const Grouper& functions, const CallersQuery& query,
                            const UnseenWords& unseen) && {
    std::vector<std::size_t> present;
    std::vector<double> values(sums_.size());
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (!sums_[i]) continue;
      present.push_back(i);
      values[i] = measure_value(sums_[i]->counters, query.order);
    }
    std::vector<Group> groups;
    for (const std::size_t i : functions.largest(std::move(present), values, query.limit)) {
      Group& group = groups.emplace_back();
      static_cast<GroupName&>(group) = functions.name(i);
      static_cast<GroupCounts&>(group) = *std::move(sums_[i]);
      group.unseen = unseen;
    }
    return groups;
  }

 private:
  std::size_t row_ = 1;
  std::vector<std::size_t> last_row_;             // by function: last row that contains it
  std::vector<std::size_t> seen_;                 // functions of the current row
  std::vector<std::optional<GroupCounts>> sums_;  // by function
};

class CallersSum {
 public:
  CallersSum(const TargetProfile& profile, const Patterns& pattern)
      : pattern_(pattern),
        unseen_(profile.unseen),
        frames_(profile),
        functions_(frames_, GroupBy::kFunction) {}

  void add(const ProfileRow& row) {
    begin_row();
    frames_.walk(*row.callstack, [&](VisibleFrames::Locations locations, std::uint64_t times) {
      // A second occurrence adds the edge from the frame to itself; more occurrences add nothing.
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(times, 2); ++i) {
        for (const LocationId id : locations) visit(functions_.group_of(id));
      }
      return true;
    });
    if (in_total_) total_.add_class(row.alloc_class, row.counters);
    if (in_self_) self_.add_class(row.alloc_class, row.counters);
    callers_.add(row);
    callees_.add(row);
  }
  CallersResult finish(const CallersQuery& query) && {
    CallersResult result;
    if (n_matching_ == 1) {
      static_cast<GroupName&>(result.total) = functions_.name(matching_);
      static_cast<GroupName&>(result.self) = functions_.name(matching_);
    }
    static_cast<GroupCounts&>(result.total) = std::move(total_);
    static_cast<GroupCounts&>(result.self) = std::move(self_);
    result.total.unseen = result.self.unseen = unseen_;
    result.callers = std::move(callers_).finish(functions_, query, unseen_);
    result.callees = std::move(callees_).finish(functions_, query, unseen_);
    return result;
  }

 private:
  void begin_row() {
    inner_.reset();
    in_total_ = in_self_ = false;
  }
  // Takes the next function of the callstack, innermost first.
  void visit(std::size_t function) {
    const bool match = matches(function);
    if (match) in_total_ = true;
    if (match && !inner_) in_self_ = true;
    if (inner_) {
      const bool inner_match = matches(*inner_);
      if (inner_match && !match) callers_.see(function);
      if (match && !inner_match) callees_.see(*inner_);
    }
    inner_ = function;
  }
  bool matches(std::size_t function) {
    for (std::size_t i = is_match_.size(); i <= function; ++i) {
      is_match_.push_back(pattern_.any_in(functions_.name(i).location.function));
      if (!is_match_.back()) continue;
      ++n_matching_;
      matching_ = i;
    }
    return is_match_[function];
  }

  const Patterns& pattern_;
  const UnseenWords unseen_;
  VisibleFrames frames_;
  Grouper functions_;
  std::vector<bool> is_match_;  // by function
  std::size_t n_matching_ = 0;
  std::size_t matching_ = 0;  // the last matching function
  GroupCounts total_;
  GroupCounts self_;
  Edges callers_;
  Edges callees_;
  // The members below belong to the current row.
  std::optional<std::size_t> inner_;
  bool in_total_ = false;
  bool in_self_ = false;
};

}  // namespace

absl::StatusOr<CallersResult> callers_of(const TargetProfile& profile, const CallersQuery& query) {
  ASSIGN_OR_RETURN(const Patterns pattern, Patterns::compile("function", {query.function}));
  if (pattern.empty()) {
    return absl::InvalidArgumentError("missing function: give a regular expression for its name");
  }
  CallersSum sum(profile, pattern);
  for (const ProfileRow& row : profile.rows) sum.add(row);
  return std::move(sum).finish(query);
}

}  // namespace memprofd
