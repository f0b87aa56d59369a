// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/query_service.h"

#include <algorithm>
#include <utility>

#include "daemon/export/api/query_convert.h"
#include "daemon/model/measure.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/query/select.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// carried_since_ns: as in memprofd::select().
absl::StatusOr<TargetProfile> select(const ProfileSnapshot& target, const pb::TimeRange& asked,
                                     const Filter& filter, std::uint64_t carried_since_ns = 0) {
  RETURN_IF_ERROR(check_known(target, filter));
  ASSIGN_OR_RETURN(const TimeRange range, from_proto(asked, target.now_ns()));
  if (range.until_peak) RETURN_IF_ERROR(check_follows_blocks(target, "live bytes"));
  return memprofd::select(target, range, filter, Lifetimes::kCounted, carried_since_ns);
}

bool in_one_session(const HistoryView& history, const TimeRange& a, const TimeRange& b) {
  const auto before = history.session_at(a.end_ns), after = history.session_at(b.end_ns);
  return !before || !after || *before == *after;
}

// The request's selection, or the fields that name one target.
absl::StatusOr<pb::Selection> selection_of(const pb::ListSitesRequest& request) {
  const bool has_fields = request.pid() != 0 || request.has_range() || request.has_filter();
  if (request.has_selection() && has_fields) {
    return absl::InvalidArgumentError(
        "bad request: give a selection, or pid, range and filter, not both");
  }
  if (request.has_selection()) return request.selection();
  pb::Selection selection;
  selection.set_pid(request.pid());
  *selection.mutable_range() = request.range();
  *selection.mutable_filter() = request.filter();
  return selection;
}

}  // namespace

absl::StatusOr<TargetProfile> QueryService::profile(const pb::Selection& selection) {
  ASSIGN_OR_RETURN(const Filter filter, from_proto(selection.filter()));
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, source_.snapshot(selection.pid()));
  return select(*target, selection.range(), filter);
}

absl::StatusOr<pb::ListSitesResponse> QueryService::list_sites(
    const pb::ListSitesRequest& request) {
  return page_of(*answers_, request, &pb::ListSitesResponse::mutable_sites,
                 [this](const auto& asked) { return all_sites(asked); });
}

absl::StatusOr<pb::ListSitesResponse> QueryService::first_sites(
    const pb::ListSitesRequest& request) {
  if (!request.page_token().empty()) {
    return absl::InvalidArgumentError("page_token is for ListSites: a stream has first pages only");
  }
  AnswerPages for_nobody;
  pb::ListSitesRequest asked = request;
  ASSIGN_OR_RETURN(const std::uint32_t rows, rows_of_page(request.page_size()));
  if (asked.limit() == 0 || asked.limit() > rows) asked.set_limit(rows);
  ASSIGN_OR_RETURN(pb::ListSitesResponse page,
                   page_of(for_nobody, asked, &pb::ListSitesResponse::mutable_sites,
                           [this](const auto& question) { return all_sites(question); }));
  page.clear_next_page_token();
  page.set_total_rows(request.limit() == 0 ? page.groups()
                                           : std::min(request.limit(), page.groups()));
  return page;
}

absl::StatusOr<pb::DiffSitesResponse> QueryService::diff_sites(
    const pb::DiffSitesRequest& request) {
  return page_of(*answers_, request, &pb::DiffSitesResponse::mutable_diffs,
                 [this](const auto& asked) { return all_diffs(asked); });
}

absl::StatusOr<pb::ListSitesResponse> QueryService::all_sites(const pb::ListSitesRequest& request) {
  ASSIGN_OR_RETURN(const pb::Selection selection, selection_of(request));
  GroupQuery query;
  ASSIGN_OR_RETURN(query.group_by, from_proto(request.group_by()));
  ASSIGN_OR_RETURN(query.order, from_proto(request.order()));
  query.limit = request.limit();
  query.with_callstack = request.with_callstacks();
  ASSIGN_OR_RETURN(Filter filter, from_proto(selection.filter()));
  filter.patterns.push_back(request.pattern());
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, source_.snapshot(selection.pid()));
  ASSIGN_OR_RETURN(const TargetProfile profile, select(*target, selection.range(), filter));
  // Sorts by allocated if the requested measure is unknown; unknown values are omitted.
  const bool unknown = !follows_blocks(*target, filter);
  if (unknown && measure_row(query.order).needs_followed_blocks())
    query.order = Measure::kAllocated;
  const GroupResult result = roll_up(profile, query);
  pb::ListSitesResponse out;
  *out.mutable_target() = to_proto(*target);
  for (const Group& group : result.groups) *out.add_sites() = to_proto(group);
  out.set_time_unix_ns(static_cast<std::int64_t>(target->now_ns()));
  *out.mutable_range() = to_proto(profile.range);
  *out.mutable_total() = to_proto(result.total);
  out.set_groups(static_cast<std::uint32_t>(result.n_groups));
  for (pb::Site& site : *out.mutable_sites()) leave_unknown_out(*target, filter, site);
  leave_unknown_out(*target, filter, *out.mutable_total());
  return out;
}

absl::StatusOr<pb::DiffSitesResponse> QueryService::all_diffs(const pb::DiffSitesRequest& request) {
  DiffQuery query;
  ASSIGN_OR_RETURN(query.group_by, from_proto(request.group_by()));
  ASSIGN_OR_RETURN(query.order, from_proto(request.order()));
  query.limit = request.limit();
  query.with_callstack = request.with_callstacks();
  query.per_second = request.per_second();
  ASSIGN_OR_RETURN(const Filter base_filter, from_proto(request.base().filter()));
  ASSIGN_OR_RETURN(const Filter other_filter, from_proto(request.other().filter()));
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr base, source_.snapshot(request.base().pid()));
  ProfileSnapshotPtr other = base;  // one moment for both
  if (request.other().pid() != request.base().pid()) {
    ASSIGN_OR_RETURN(other, source_.snapshot(request.other().pid()));
  }
  RETURN_IF_ERROR(check_known(*base, base_filter, query.order));
  RETURN_IF_ERROR(check_known(*other, other_filter, query.order));
  ASSIGN_OR_RETURN(TargetProfile from, select(*base, request.base().range(), base_filter));
  ASSIGN_OR_RETURN(TargetProfile to, select(*other, request.other().range(), other_filter));
  // Memory that a session forgot between the two moments counts as live, because its end is
  // unknown.
  const bool differ = base == other && !in_one_session(base->history, from.range, to.range);
  if (differ && from.range.end_ns < to.range.end_ns) {
    ASSIGN_OR_RETURN(to, select(*other, request.other().range(), other_filter, from.range.end_ns));
  } else if (differ) {
    ASSIGN_OR_RETURN(from, select(*base, request.base().range(), base_filter, to.range.end_ns));
  }
  const DiffResult result = diff(from, to, query);
  const auto leave_out = [&](pb::SiteDiff& change) {
    leave_unknown_out(*base, base_filter, *change.mutable_base());
    leave_unknown_out(*other, other_filter, *change.mutable_other());
  };
  pb::DiffSitesResponse out;
  for (const GroupDiff& group : result.diffs) leave_out(*out.add_diffs() = to_proto(group));
  *out.mutable_base_range() = to_proto(from.range);
  *out.mutable_other_range() = to_proto(to.range);
  leave_out(*out.mutable_total() = to_proto(result.total));
  out.set_groups(static_cast<std::uint32_t>(result.n_groups));
  out.set_sessions_differ(differ);
  return out;
}

absl::StatusOr<pb::ListCallersResponse> QueryService::list_callers(
    const pb::ListCallersRequest& request) {
  CallersQuery query;
  query.function = request.function();
  ASSIGN_OR_RETURN(query.order, from_proto(request.order()));
  query.limit = request.limit();
  ASSIGN_OR_RETURN(const Filter filter, from_proto(request.selection().filter()));
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, source_.snapshot(request.selection().pid()));
  RETURN_IF_ERROR(check_known(*target, filter, query.order));
  ASSIGN_OR_RETURN(const TargetProfile from, select(*target, request.selection().range(), filter));
  ASSIGN_OR_RETURN(const CallersResult result, callers_of(from, query));
  pb::ListCallersResponse out;
  *out.mutable_self() = to_proto(result.self);
  *out.mutable_total() = to_proto(result.total);
  for (const Group& group : result.callers) *out.add_callers() = to_proto(group);
  for (const Group& group : result.callees) *out.add_callees() = to_proto(group);
  *out.mutable_range() = to_proto(from.range);
  leave_unknown_out(*target, filter, *out.mutable_self());
  leave_unknown_out(*target, filter, *out.mutable_total());
  for (pb::Site& site : *out.mutable_callers()) leave_unknown_out(*target, filter, site);
  for (pb::Site& site : *out.mutable_callees()) leave_unknown_out(*target, filter, site);
  return out;
}

}  // namespace memprofd
