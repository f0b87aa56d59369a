// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/query_service.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/process_owner.h"
#include "daemon/export/api/query_convert.h"
#include "daemon/export/api/rss_convert.h"
#include "daemon/export/formats/profile_formats.h"
#include "daemon/history/discoveries.h"
#include "daemon/model/group_key.h"
#include "daemon/model/measure.h"
#include "daemon/query/leaks.h"
#include "daemon/query/memory_growth.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/query/range_counter.h"
#include "daemon/query/select.h"
#include "daemon/query/series.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

// Refuses a range that ends before memprofd knows the target: all of it would be zero. whose: "it",
// or "the base" of a comparison.
absl::Status check_attached(const ProfileSnapshot& target, const TimeRange& range,
                            const char* whose) {
  const std::uint64_t attached_ns = target.begin_ns();
  if (range.end_ns == 0 || range.end_ns > attached_ns) return absl::OkStatus();
  const auto attached = static_cast<std::time_t>(attached_ns / 1'000'000'000);
  return absl::InvalidArgumentError(
      fmt::format("bad range: {} ends before the attach ({:%Y-%m-%d %H:%M:%S} UTC); choose a later "
                  "one",
                  whose, fmt::gmtime(attached)));
}

// carried_since_ns: as in memprofd::select().
absl::StatusOr<TargetProfile> select(const ProfileSnapshot& target, const pb::TimeRange& asked,
                                     const Filter& filter, const char* whose = "it",
                                     std::uint64_t carried_since_ns = 0) {
  RETURN_IF_ERROR(check_known(target, filter));
  ASSIGN_OR_RETURN(const TimeRange range, from_proto(asked, target.now_ns()));
  if (range.until_peak) RETURN_IF_ERROR(check_follows_blocks(target, "live bytes"));
  RETURN_IF_ERROR(check_attached(target, range, whose));
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

absl::StatusOr<std::optional<Recursion>> recursion_of(pb::Recursion recursion) {
  switch (recursion) {
    case pb::RECURSION_UNSPECIFIED:
      return std::nullopt;
    case pb::RECURSION_FOLDED:
      return Recursion::kFolded;
    case pb::RECURSION_FULL:
      return Recursion::kFull;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("unknown recursion ", static_cast<int>(recursion)));
  }
}

absl::StatusOr<const ProfileFormatRow*> known_format(pb::ProfileFormat format) {
  if (const ProfileFormatRow* row = find_profile_format(format)) return row;
  return absl::InvalidArgumentError(absl::StrCat("unknown profile format ", format));
}

// Keeps only characters that are safe in any file name or header.
std::string file_name(const std::vector<TargetProfile>& profiles, const std::string& extension) {
  std::string name = "memprofd";
  if (profiles.size() == 1) name = absl::StrCat(profiles[0].comm, "-", profiles[0].pid);
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  }
  return name + extension;
}

// Converts a range that begins at a time of the system clock.
pb::TimeRange on_history_clock(const ProfileSnapshot& target, pb::TimeRange range) {
  range.set_begin_unix_ns(range.begin_unix_ns() - target.clock_set_by_ns());
  return range;
}

// True if a target has, for each requested label, one of the values.
bool has_labels(const TargetInfo& info, const std::multimap<std::string, std::string>& labels) {
  const auto values = label_values(info);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [begin, end] = labels.equal_range(std::string(kTargetLabels[i]));
    const auto same = [&](const auto& label) { return label.second == values[i]; };
    if (begin != end && std::none_of(begin, end, same)) return false;
  }
  return true;
}

// Keeps only targets with these labels; an error if there are none.
absl::Status leave_labelled(std::vector<ProfileSnapshotPtr>& targets,
                            const std::multimap<std::string, std::string>& labels) {
  if (labels.empty()) return absl::OkStatus();
  std::erase_if(targets, [&](const auto& target) { return !has_labels(target->info, labels); });
  if (!targets.empty()) return absl::OkStatus();
  const std::string asked = absl::StrJoin(labels, " and ", [](std::string* out, const auto& label) {
    absl::StrAppend(out, label.first, " \"", absl::Utf8SafeCEscape(label.second), "\"");
  });
  return absl::NotFoundError(
      absl::StrCat("no target has ", asked, "; `memprofctl targets` lists them"));
}

// Keeps only programs that are profiled now, because an ended program has no memory in use. Of
// these, keeps those about which the question can be answered completely, if there are any.
void leave_out(std::vector<ProfileSnapshotPtr>& targets, const Filter& filter, bool followed_only) {
  std::erase_if(targets, [](const auto& target) { return !is_active(target->info.state); });
  const auto follows = [&](const auto& target) { return follows_blocks(*target, filter); };
  if (!followed_only || std::none_of(targets.begin(), targets.end(), follows)) return;
  std::erase_if(targets, [&](const auto& target) { return !follows(target); });
}

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
  out.set_least_growth_bytes(least_growth(growth.begin_bytes));
  return out;
}

pb::LeakVerdict verdict_of(const LeakAnswer& answer, const std::vector<MemoryGrowth>& memory) {
  if (!answer.suspects.empty()) return pb::LEAK_VERDICT_SITES;
  if (!answer.rolled_up.empty() && answer.rolled_up[0].certain) return pb::LEAK_VERDICT_GROUPS;
  if (std::ranges::any_of(memory, &MemoryGrowth::grows)) return pb::LEAK_VERDICT_MEMORY;
  return answer.has_enough_steps ? pb::LEAK_VERDICT_NONE : pb::LEAK_VERDICT_UNKNOWN;
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

static_assert(static_cast<int>(Discovery::kProfiled) + 1 == pb::DISCOVERY_OUTCOME_PROFILED &&
              static_cast<int>(Discovery::kRefused) + 1 == pb::DISCOVERY_OUTCOME_REFUSED &&
              pb::DiscoveryOutcome_ARRAYSIZE == static_cast<int>(kDiscoveryNames.size()) + 1);

void add_discovered(const Discoveries& found, pb::ListTargetsResponse& out) {
  for (const DiscoveredProgram& program : found.programs) {
    pb::DiscoveredProgram& row = *out.add_discovered();
    row.set_pid(program.pid);
    row.set_comm(valid_utf8(program.comm));
    row.set_exe(valid_utf8(program.exe));
    row.set_outcome(static_cast<pb::DiscoveryOutcome>(static_cast<int>(program.outcome) + 1));
    row.set_reason(valid_utf8(program.reason));
    row.set_rule(valid_utf8(program.rule));
    row.set_process_start_ticks(program.start_time_ticks);
  }
  out.set_discovered_left_out(found.left_out);
  out.set_unread_files(found.unread_files);
  out.set_ended_early(found.ended_early);
}

// The kernel hides the paths of other users' programs from this user, too.
void keep_programs_of(const ProcessUser& user, pb::ListTargetsResponse& response) {
  auto& programs = *response.mutable_discovered();
  const ProcFs proc;
  const auto not_his = [&](const pb::DiscoveredProgram& program) {
    return !check_is_meant_now(proc, {program.pid(), program.process_start_ticks(), user}).ok();
  };
  programs.erase(std::remove_if(programs.begin(), programs.end(), not_his), programs.end());
  response.clear_discovered_left_out();
  response.clear_unread_files();
  response.clear_ended_early();
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
  constexpr char kBase[] = "the base", kOther[] = "the other";
  ASSIGN_OR_RETURN(TargetProfile from, select(*base, request.base().range(), base_filter, kBase));
  ASSIGN_OR_RETURN(TargetProfile to, select(*other, request.other().range(), other_filter, kOther));
  // Memory that a session forgot between the two moments counts as live, because its end is
  // unknown.
  const bool differ = base == other && !in_one_session(base->history, from.range, to.range);
  if (differ && from.range.end_ns < to.range.end_ns) {
    ASSIGN_OR_RETURN(
        to, select(*other, request.other().range(), other_filter, kOther, from.range.end_ns));
  } else if (differ) {
    ASSIGN_OR_RETURN(from,
                     select(*base, request.base().range(), base_filter, kBase, to.range.end_ns));
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

// ----------------------------- profiles in formats of other tools, and targets

absl::StatusOr<std::vector<TargetProfile>> QueryService::profiles(
    const pb::GetProfileRequest& request, const ScrapeOptions& options) {
  ASSIGN_OR_RETURN(const Filter filter, from_proto(request.filter()));
  ASSIGN_OR_RETURN(const Measure measure, from_proto(request.measure()));
  // Formats with several values contain all that are known, whatever the measure is.
  ASSIGN_OR_RETURN(const ProfileFormatRow* format, known_format(request.format()));
  const bool several = format->has_several_values;
  std::vector<ProfileSnapshotPtr> targets;
  for (const int pid : request.pids()) {
    ASSIGN_OR_RETURN(ProfileSnapshotPtr target, source_.snapshot(pid));
    targets.push_back(std::move(target));
  }
  if (request.pids().empty()) targets = source_.snapshots();
  RETURN_IF_ERROR(leave_labelled(targets, options.labels));
  if (request.pids().empty()) {
    leave_out(targets, filter, several || measure_row(measure).needs_followed_blocks());
  }
  std::vector<TargetProfile> result;
  for (const ProfileSnapshotPtr& target : targets) {
    if (!several) RETURN_IF_ERROR(check_known(*target, filter, measure));
    RETURN_IF_ERROR(check_known(*target, filter));
    const pb::TimeRange asked =
        options.system_clock ? on_history_clock(*target, request.range()) : request.range();
    ASSIGN_OR_RETURN(const TimeRange range, from_proto(asked, target->now_ns()));
    // No format contains lifetimes.
    ASSIGN_OR_RETURN(TargetProfile profile, select(*target, range, filter, Lifetimes::kLeftOut));
    result.push_back(std::move(profile));
  }
  return result;
}

absl::StatusOr<pb::GetProfileResponse> QueryService::get_profile(
    const pb::GetProfileRequest& request, const ScrapeOptions& options) {
  ASSIGN_OR_RETURN(const Measure measure, from_proto(request.measure()));
  ASSIGN_OR_RETURN(const std::vector<TargetProfile> selected, profiles(request, options));
  ASSIGN_OR_RETURN(const ProfileFormatRow* format, known_format(request.format()));
  ASSIGN_OR_RETURN(const std::optional<Recursion> recursion, recursion_of(request.recursion()));
  ASSIGN_OR_RETURN(std::string data,
                   format->render(selected, {measure, options.within_limits, recursion}));
  pb::GetProfileResponse out;
  out.set_file_name(file_name(selected, format->extension));
  out.set_content_type(format->content_type);
  out.set_data(std::move(data));
  return out;
}

pb::ListTargetsResponse QueryService::list_targets(const pb::ListTargetsRequest& request,
                                                   const std::optional<ProcessUser>& user) {
  pb::ListTargetsResponse out;
  const std::vector<ProfileSnapshotPtr> targets = source_.snapshots();
  if (request.discovered()) add_discovered(with_targets(discovered_(), targets), out);
  for (const ProfileSnapshotPtr& target : targets) {
    pb::Target& shown = *out.add_targets();
    shown = to_proto(*target);
    if (!is_active(target->info.state)) continue;
    const std::chrono::duration<double> age = target->age(realtime_ns());
    shown.set_snapshot_age_seconds(age.count());
  }
  if (user) keep_programs_of(*user, out);
  return out;
}

// --------------------------------------------------------------------- history

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
