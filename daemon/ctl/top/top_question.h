// SPDX-License-Identifier: Apache-2.0
// The view of `top`, and the requests for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "daemon/ctl/group_name.h"
#include "daemon/ctl/questions.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

enum class TopView {
  kTargets,
  kSites,       // or other groups
  kCallstacks,  // callstacks of one group
};

// Maximum number of steps of a sparkline.
inline constexpr std::uint32_t kTopPoints = 30;
// More groups than anyone scrolls through.
inline constexpr std::uint32_t kTopRows = 1000;

struct TopViewState {
  TopView view = TopView::kSites;
  int pid = 0;  // of a target; 0 for kTargets
  pb::Measure order = pb::MEASURE_LIVE;
  pb::GroupBy group_by = pb::GROUP_BY_SITE;
  pb::Filter filter;
  double window_seconds = 60;      // the window for flows, up to until_ns; 0: since the attach
  std::int64_t until_ns = 0;       // nanoseconds since the Unix epoch; 0: now
  pb::Site drilled;                // kCallstacks: the group that was opened
  std::uint32_t limit = kTopRows;  // rows; 0: all

  // The group key of the view's rows.
  pb::GroupBy row_group() const {
    return view == TopView::kCallstacks ? pb::GROUP_BY_CALLSTACK : group_by;
  }
};

// Answers for about the same moment: the questions are sent one after the other.
struct TopAnswer {
  TopViewState view_state;   // the question
  std::uint64_t number = 0;  // number of the question
  absl::Status status;
  pb::ListTargetsResponse targets;  // kTargets; everything else is empty then
  pb::ListSitesResponse program;    // its total covers all blocks of the program
  pb::ListSitesResponse sites;      // the rows
  pb::GetHistoryResponse history;   // history of the rows, by sparkline_measure()

  // Seconds in which flows were counted; 0: none.
  double seconds() const;
};

// The requests for a view.
pb::ListSitesRequest program_request(const TopViewState& view_state);
pb::ListSitesRequest sites_request(const TopViewState& view_state);
pb::GetHistoryRequest history_request(const TopViewState& view_state);
// The measure of the sort order that has a history.
pb::Measure sparkline_measure(pb::Measure order);

// Asks all of them; does not set number.
TopAnswer ask_top(Questions& source, const TopViewState& view_state);

}  // namespace memprofd::ctl
