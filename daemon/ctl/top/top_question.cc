// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_question.h"

#include <utility>

#include "daemon/ctl/render/text.h"
#include "daemon/model/measure.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

// Whole callstacks are large.
constexpr std::uint32_t kCallstackRows = 200;

// Adds the selected group to the filter; the rest is slightly more than the group.
pb::Filter filter_of(const TopViewState& view_state) {
  pb::Filter filter = view_state.filter;
  if (view_state.view != TopView::kCallstacks) return filter;
  narrow(view_state.drilled, view_state.group_by, filter);
  return filter;
}

pb::TimeRange range_of(const TopViewState& view_state) {
  pb::TimeRange range;
  range.set_end_unix_ns(view_state.until_ns);
  range.set_last_seconds(view_state.window_seconds);
  return range;
}

std::uint32_t limit_of(const TopViewState& view_state) {
  return view_state.view == TopView::kCallstacks ? kCallstackRows : view_state.limit;
}

void keep_drilled(const TopViewState& view_state, pb::ListSitesResponse& sites) {
  if (view_state.view != TopView::kCallstacks) return;
  auto& all = *sites.mutable_sites();
  for (int i = all.size() - 1; i >= 0; --i) {
    if (!in_group(all[i], view_state.drilled, view_state.group_by)) all.DeleteSubrange(i, 1);
  }
}

absl::Status ask(Questions& source, TopAnswer& answer) {
  const TopViewState& view_state = answer.view_state;
  if (view_state.view == TopView::kTargets) {
    ASSIGN_OR_RETURN(answer.targets, source.list_targets());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(answer.program, source.list_sites(program_request(view_state)));
  ASSIGN_OR_RETURN(answer.sites, all_sites(source, sites_request(view_state)));
  // Unknown measures have no history.
  if (is_known(answer.sites.total(), sparkline_measure(view_state.order))) {
    ASSIGN_OR_RETURN(answer.history, source.get_history(history_request(view_state)));
  }
  keep_drilled(view_state, answer.sites);
  return absl::OkStatus();
}

}  // namespace

double TopAnswer::seconds() const {
  const pb::TimeRange& range = sites.range();
  return static_cast<double>(range.end_unix_ns() - range.begin_unix_ns()) / 1e9;
}

pb::Measure sparkline_measure(pb::Measure order) {
  const MeasureRow& measure = measure_row(order);
  return measure.is_sum() ? measure.proto : pb::MEASURE_LIVE;
}

pb::ListSitesRequest program_request(const TopViewState& view_state) {
  pb::ListSitesRequest request;
  request.set_pid(view_state.pid);
  *request.mutable_range() = range_of(view_state);
  request.set_group_by(pb::GROUP_BY_DOMAIN);  // few
  request.set_limit(1);
  return request;
}

pb::ListSitesRequest sites_request(const TopViewState& view_state) {
  pb::ListSitesRequest request;
  request.set_pid(view_state.pid);
  *request.mutable_range() = range_of(view_state);
  *request.mutable_filter() = filter_of(view_state);
  request.set_order(view_state.order);
  request.set_group_by(view_state.row_group());
  request.set_limit(limit_of(view_state));
  return request;
}

pb::GetHistoryRequest history_request(const TopViewState& view_state) {
  pb::GetHistoryRequest request;
  request.mutable_selection()->set_pid(view_state.pid);
  *request.mutable_selection()->mutable_range() = range_of(view_state);
  *request.mutable_selection()->mutable_filter() = filter_of(view_state);
  request.set_group_by(view_state.row_group());
  request.set_measure(sparkline_measure(view_state.order));
  // Rows are the largest by their present value, series by their mean, so this asks for more series
  // than rows.
  request.set_limit(view_state.view == TopView::kCallstacks ? kCallstackRows : kTopRows);
  request.set_points(kTopPoints);
  return request;
}

TopAnswer ask_top(Questions& source, const TopViewState& view_state) {
  TopAnswer answer;
  answer.view_state = view_state;
  answer.status = ask(source, answer);
  return answer;
}

}  // namespace memprofd::ctl
