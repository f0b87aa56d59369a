// SPDX-License-Identifier: Apache-2.0
// QueryService: queries about history.
#include <algorithm>
#include <utility>

#include "daemon/export/api/query_convert.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/api/rss_convert.h"
#include "daemon/model/group_key.h"
#include "daemon/query/leaks.h"
#include "daemon/query/memory_growth.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/query/range_counter.h"
#include "daemon/query/series.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// seconds: the time of the growth, above 0.
pb::Leak to_proto(const LeakSuspect& suspect, double seconds) {
  pb::Leak out;
  *out.mutable_site() = memprofd::to_proto(suspect.group);
  out.set_growth_bytes(suspect.growth_bytes);
  out.set_growth_bytes_stderr(suspect.growth_bytes_stderr);
  out.set_growth_bytes_lower(suspect.growth_limits.lower);
  out.set_growth_bytes_upper(suspect.growth_limits.upper);
  out.set_growth_bytes_per_second(suspect.growth_bytes / seconds);
  out.set_growth_bytes_per_second_stderr(suspect.growth_bytes_stderr / seconds);
  out.set_growth_bytes_per_second_lower(suspect.growth_limits.lower / seconds);
  out.set_growth_bytes_per_second_upper(suspect.growth_limits.upper / seconds);
  out.set_median_age_seconds(suspect.median_age_seconds);
  out.set_median_age_seconds_lower(suspect.median_age_limits.lower);
  out.set_median_age_seconds_upper(suspect.median_age_limits.upper);
  out.set_confidence(suspect.confidence);
  out.set_steadiness(suspect.steadiness);
  out.set_in_steps(suspect.in_steps);
  return out;
}

pb::MemoryGrowth to_proto(const MemoryGrowth& growth) {
  pb::MemoryGrowth out;
  out.set_area(growth.area == MemoryArea::kHeap     ? pb::MEMORY_AREA_HEAP
               : growth.area == MemoryArea::kNative ? pb::MEMORY_AREA_NATIVE
                                                    : pb::MEMORY_AREA_MAPPED);
  out.set_begin_bytes(growth.begin_bytes);
  out.set_end_bytes(growth.end_bytes);
  out.set_bytes_per_second(growth.bytes_per_second);
  out.set_since_unix_ns(static_cast<std::int64_t>(growth.since_ns));
  out.set_confidence(growth.confidence);
  out.set_grows(growth.grows);
  out.set_moments(static_cast<std::uint32_t>(growth.moments));
  return out;
}

pb::LeakVerdict verdict_of(const LeakAnswer& answer, const std::vector<MemoryGrowth>& memory) {
  if (!answer.suspects.empty()) return pb::LEAK_VERDICT_SITES;
  if (!answer.rolled_up.empty() && answer.rolled_up[0].certain) return pb::LEAK_VERDICT_GROUPS;
  if (std::ranges::any_of(memory, &MemoryGrowth::grows)) return pb::LEAK_VERDICT_MEMORY;
  return answer.compared_seconds > 0 ? pb::LEAK_VERDICT_NONE : pb::LEAK_VERDICT_UNKNOWN;
}

// Limits for live memory at one moment, which was sampled at one rate. rate: used if nothing was
// sampled.
Limits limits_of_live(const Estimate& live, double rate) {
  return live.limits_bytes(live.grain_or(rate));
}

pb::HistoryPoint to_proto(const SeriesPoint& point, double rate) {
  pb::HistoryPoint out;
  out.set_time_unix_ns(static_cast<std::int64_t>(point.end_ns));
  out.set_step_seconds(point.seconds);
  out.set_heap_bytes(point.target.heap_words * kWordBytes);
  out.set_live_bytes(point.target.live.bytes());
  out.set_live_bytes_stderr(point.target.live.stderr_bytes());
  const Limits live = limits_of_live(point.target.live, rate);
  out.set_live_bytes_lower(live.lower);
  out.set_live_bytes_upper(live.upper);
  out.set_minor_collections(point.target.minor_collections);
  out.set_major_collections(point.target.major_collections);
  out.set_compactions(point.target.compactions);
  out.set_dropped_events(point.target.dropped_events);
  out.set_session(point.target.session);
  const MemoryParts& memory = point.target.memory;
  if (memory.resident() > 0) *out.mutable_memory() = memprofd::to_proto(memory);
  return out;
}

void fill(const Series& series, pb::HistorySeries& out) {
  out.mutable_values()->Assign(series.values.begin(), series.values.end());
  out.mutable_stderrs()->Assign(series.stderrs.begin(), series.stderrs.end());
  for (const Limits& limits : series.limits) {
    out.add_lowers(limits.lower);
    out.add_uppers(limits.upper);
  }
}

pb::GetHistoryResponse to_proto(const SeriesAnswer& answer, const ProfileSnapshot& target) {
  pb::GetHistoryResponse out;
  const double rate = target.info.sampling_rate;
  for (const SeriesPoint& point : answer.points) *out.add_points() = to_proto(point, rate);
  for (const Series& series : answer.series) {
    pb::HistorySeries& message = *out.add_series();
    *message.mutable_group() = memprofd::to_proto(series.name);
    fill(series, message);
  }
  fill(answer.other, *out.mutable_other());
  *out.mutable_range() = memprofd::to_proto(answer.range);
  out.set_oldest_unix_ns(static_cast<std::int64_t>(target.history.oldest_ns()));
  if (target.history.peak != nullptr) {
    out.set_peak_unix_ns(static_cast<std::int64_t>(target.history.peak->time_ns));
    out.set_peak_live_bytes(target.history.peak->live.bytes());
    out.set_peak_live_bytes_stderr(target.history.peak->live.stderr_bytes());
    out.set_peak_live_bytes_lower(target.history.peak_limits.lower);
    out.set_peak_live_bytes_upper(target.history.peak_limits.upper);
  }
  return out;
}

}  // namespace

absl::StatusOr<pb::ListLeaksResponse> QueryService::list_leaks(
    const pb::ListLeaksRequest& request) {
  LeakQuery query;
  query.limit = request.limit();
  query.roll_up = request.roll_up();
  ASSIGN_OR_RETURN(query.group_by, from_proto(request.group_by()));
  ASSIGN_OR_RETURN(const Filter filter, from_proto(request.selection().filter()));
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, source_.snapshot(request.selection().pid()));
  RETURN_IF_ERROR(check_follows_blocks(*target, filter, "live bytes, and so leaks,"));
  ASSIGN_OR_RETURN(const TimeRange range,
                   from_proto(request.selection().range(), target->now_ns()));
  ASSIGN_OR_RETURN(const LeakAnswer answer, find_leaks(*target, range, filter, query));
  pb::ListLeaksResponse out;
  for (const LeakSuspect& suspect : answer.suspects) {
    *out.add_leaks() = to_proto(suspect, answer.compared_seconds);
  }
  *out.mutable_range() = to_proto(answer.range);
  out.set_compared_seconds(answer.compared_seconds);
  out.set_least_leak_bytes_per_second(answer.least_leak_bytes_per_second);
  if (query.limit != 0) return out;
  const std::vector<MemoryGrowth> memory =
      memory_growth(target->history, RangeCounter(*target).resolve(range));
  for (const MemoryGrowth& growth : memory) *out.add_memory() = to_proto(growth);
  out.set_verdict(verdict_of(answer, memory));
  const bool heap_grows = std::ranges::any_of(memory, [](const MemoryGrowth& growth) {
    return growth.grows && growth.area == MemoryArea::kHeap;
  });
  if (out.verdict() != pb::LEAK_VERDICT_GROUPS && !heap_grows) return out;
  for (const LeakRollUp& group : answer.rolled_up) {
    pb::LeakGroup& rolled_up = *out.add_rolled_up();
    rolled_up.set_group_by(group_row(group.group_by).proto);
    *rolled_up.mutable_leak() = to_proto(group.suspect, answer.compared_seconds);
  }
  return out;
}

absl::StatusOr<pb::GetHistoryResponse> QueryService::get_history(
    const pb::GetHistoryRequest& request) {
  SeriesQuery query;
  ASSIGN_OR_RETURN(query.group_by, from_proto(request.group_by()));
  ASSIGN_OR_RETURN(query.measure, from_proto(request.measure()));
  if (request.limit() > 0) query.limit = request.limit();
  if (request.points() > 0) query.points = std::min(request.points(), kMaxPoints);
  ASSIGN_OR_RETURN(const Filter filter, from_proto(request.selection().filter()));
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, source_.snapshot(request.selection().pid()));
  RETURN_IF_ERROR(check_known(*target, filter, query.measure));
  RETURN_IF_ERROR(check_known(*target, filter));
  ASSIGN_OR_RETURN(const TimeRange range,
                   from_proto(request.selection().range(), target->now_ns()));
  ASSIGN_OR_RETURN(const SeriesAnswer answer, history_series(*target, range, filter, query));
  return to_proto(answer, *target);
}

}  // namespace memprofd
