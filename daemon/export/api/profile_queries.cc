// SPDX-License-Identifier: Apache-2.0
// QueryService: profiles in formats of other tools.
#include <algorithm>
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
#include "daemon/export/api/query_service.h"
#include "daemon/export/formats/profile_formats.h"
#include "daemon/history/discoveries.h"
#include "daemon/model/measure.h"
#include "daemon/query/observe_mode_rules.h"
#include "daemon/query/select.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

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

}  // namespace

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

namespace {

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

}  // namespace memprofd
