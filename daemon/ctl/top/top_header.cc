// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/top/top_header.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/top/top_filter.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/model/group_key.h"
#include "daemon/model/measure.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

constexpr double kSlowSeconds = 2;  // an answer is late

std::string flow_text(const pb::Estimate& flow, const TopAnswer& answer) {
  if (answer.view_state.window_seconds <= 0) return estimate_text(flow);
  const double seconds = answer.seconds();
  if (seconds <= 0) return "-";
  return absl::StrCat(format_estimate(flow.bytes() / seconds, flow.bytes_stderr() / seconds),
                      " per s");
}

// The runtime's own counters, at the time of the answer.
void add_gc(const TopAnswer& answer, Pieces& pieces) {
  std::uint64_t heap = 0, minor = 0, major = 0, dropped = 0;
  const auto& points = answer.history.points();
  const pb::Target& target = answer.program.target();
  const bool past = answer.view_state.until_ns != 0;
  if (past && points.empty()) return;
  if (past) {
    const pb::HistoryPoint& point = points[points.size() - 1];
    heap = point.heap_bytes();
    minor = point.minor_collections();
    major = point.major_collections();
    dropped = point.dropped_events();
  } else {
    heap = target.gc().heap_bytes();
    minor = target.gc().minor_collections();
    major = target.gc().major_collections();
    dropped = target.dropped_events();
  }
  if (target.has_gc()) {
    if (heap > 0) pieces.push_back(absl::StrCat("heap ", format_bytes(static_cast<double>(heap))));
    pieces.push_back(
        absl::StrCat("gc ", format_count(minor), " minor ", format_count(major), " major"));
  }
  pieces.push_back(absl::StrCat("dropped ", format_count(dropped)));
}

bool unreachable(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kPermissionDenied;
}

std::int64_t shown_ns(const TopAnswer& answer) { return answer.sites.range().end_unix_ns(); }

}  // namespace

std::vector<std::string> fit_pieces(const Pieces& pieces, std::size_t width,
                                    std::size_t max_lines) {
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    if (piece.empty()) continue;
    const bool fits =
        !lines.empty() &&
        (width == 0 || display_width(lines.back()) + 2 + display_width(piece) <= width);
    if (fits) {
      absl::StrAppend(&lines.back(), "  ", piece);
    } else if (lines.size() < max_lines) {
      lines.push_back(width == 0 ? piece : fit_width(piece, width));
    }
  }
  return lines;
}

Pieces target_pieces(const TopAnswer& answer) {
  if (answer.view_state.view == TopView::kTargets) return {};
  const pb::Target& target = answer.program.target();
  const std::string_view state = state_word(target.state());
  const bool sampling = target.state() == pb::TARGET_STATE_SAMPLING;
  return {absl::StrCat(printable(target.comm()), " (pid ", target.pid(), ")"),
          absl::StrCat("OCaml ", printable(target.runtime_version())),
          absl::StrCat(printable(target.mode()), " mode"),
          !sampling                    ? std::string(state)
          : target.sampling_rate() > 0 ? absl::StrCat("rate ", rate_text(target))
                                       : std::string()};
}

Pieces program_pieces(const TopAnswer& answer) {
  if (answer.view_state.view == TopView::kTargets) return {};
  const pb::Site& total = answer.program.total();
  const bool known = is_known(total, pb::MEASURE_LIVE);
  Pieces pieces{absl::StrCat("live ", known_text(known, estimate_text(total.live()))),
                answer.view_state.until_ns == 0 ? live_before_text(answer.program.target()) : "",
                absl::StrCat("allocated ", flow_text(total.allocated(), answer))};
  add_gc(answer, pieces);
  return pieces;
}

Pieces view_pieces(const TopAnswer& answer) {
  const TopViewState& view_state = answer.view_state;
  if (view_state.view == TopView::kTargets) return {"targets of this memprofd"};
  const std::string_view order = measure_row(view_state.order).title;
  const std::string_view groups = group_row(view_state.row_group()).plural;
  const bool drilled = view_state.view == TopView::kCallstacks;
  const auto rows = static_cast<std::uint32_t>(answer.sites.sites_size());
  const bool cut = !drilled && answer.sites.groups() > rows;
  const std::string span = view_state.window_seconds > 0
                               ? absl::StrCat("in ", format_duration(answer.seconds()))
                               : "since the attach";
  Pieces pieces{
      absl::StrCat(absl::string_view(groups.data(), groups.size()), " by ",
                   absl::string_view(order.data(), order.size()), ": ", format_count(rows),
                   cut ? absl::StrCat(" of ", format_count(answer.sites.groups())) : ""),
      absl::StrCat(span, " until ", clock_text(shown_ns(answer)))};
  if (drilled)
    pieces.push_back(absl::StrCat("of ", site_text(view_state.drilled, view_state.group_by)));
  if (const std::string filter = filter_line(view_state.filter); !filter.empty()) {
    pieces.push_back(absl::StrCat("filter ", printable(filter)));
  }
  return pieces;
}

std::string state_text(const TopModel& model) {
  const TopAnswer& answer = model.answer();
  const bool is_list = answer.view_state.view == TopView::kTargets;
  if (!model.problem().ok()) {
    return absl::StrCat(unreachable(model.problem()) ? "RECONNECTING" : "NO ANSWER",
                        is_list ? "" : absl::StrCat(", as of ", clock_text(shown_ns(answer))));
  }
  if (model.waiting_seconds() > kSlowSeconds) {
    return absl::StrCat("WAITING for memprofd for ", format_duration(model.waiting_seconds()));
  }
  if (is_list) return "LIVE";
  if (model.paused()) {
    const std::int64_t at = model.current() ? shown_ns(answer) : model.view_state().until_ns;
    const double ago = static_cast<double>(answer.program.time_unix_ns() - at) / 1e9;
    return absl::StrCat("PAUSED at ", clock_text(at),
                        model.current() ? absl::StrCat(", ", format_duration(ago), " back") : "");
  }
  const pb::TargetState state = answer.program.target().state();
  return state == pb::TARGET_STATE_SAMPLING ? "LIVE" : upper_text(state_word(state));
}

std::string problem_text(const TopModel& model) {
  if (!model.problem().ok()) return printable(std::string(model.problem().message()));
  if (model.answer().view_state.view == TopView::kTargets) return "";
  return printable(model.answer().program.target().message());
}

}  // namespace memprofd::ctl
