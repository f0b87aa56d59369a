// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/run_report.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/ctl/render/text.h"
#include "daemon/util/drops.h"
#include "daemon/util/estimate.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

constexpr std::uint32_t kReportRows = 5;
constexpr double kEnoughSamples = 1000;  // for a report

std::string peak_text(const pb::GetHistoryResponse& history, std::uint64_t began_ns,
                      const ReportWords& words) {
  if (history.peak_unix_ns() == 0) return "none";
  pb::Estimate peak;
  peak.set_bytes(history.peak_live_bytes());
  peak.set_bytes_stderr(history.peak_live_bytes_stderr());
  const double seconds =
      static_cast<double>(history.peak_unix_ns() - static_cast<std::int64_t>(began_ns)) / 1e9;
  return absl::StrCat(estimate_text(peak), ", ", format_duration(seconds), words.since);
}

}  // namespace

std::string no_samples_text(const ProfileSnapshot& snapshot, std::optional<double> words) {
  const double rate = snapshot.info.sampling_rate;
  if (snapshot.counters.all_allocated().samples > 0) return "";
  if (snapshot.drops.get(Drop::kAgentDomainInUse) > 0) return "";  // reported as a loss
  constexpr char kNothing[] = "\nmemprofctl: nothing was sampled";
  if (rate >= 1) return absl::StrCat(kNothing, ": the program has allocated nothing\n");
  const std::string at_rate = absl::StrCat(" at ", format_rate(rate));
  constexpr char kRemedy[] = "; give a higher --sampling-rate";
  if (!words) {
    return absl::StrCat(kNothing, at_rate, kRemedy, ", or let the program work longer\n");
  }
  const double enough = std::min(1.0, kEnoughSamples / std::max(*words, 1.0));
  return absl::StrCat(
      kNothing, ": the program has allocated at least ", format_bytes(*words * kBytesPerWord),
      absl::StrFormat(", for which %.2g samples are expected", *words * rate), at_rate, kRemedy,
      enough > rate ? absl::StrFormat(", such as %.1g", enough) : "", "\n");
}

absl::StatusOr<std::string> top_sites(Questions& questions, int pid, pb::Measure order, bool peak) {
  pb::ListSitesRequest request;
  request.set_pid(pid);
  request.set_order(order);
  request.set_limit(kReportRows);
  request.mutable_range()->set_until_peak(peak);
  request.mutable_filter()->set_frames(pb::FRAMES_APPLICATION);
  ASSIGN_OR_RETURN(const pb::ListSitesResponse sites, questions.list_sites(request));
  if (sites.sites().empty()) return std::string();
  return sites_table(sites, pb::GROUP_BY_UNSPECIFIED, false, {});
}

std::string head_of_report(const pb::Target& target, const std::string& pid_text,
                           const std::string& extent, const char* peak_name,
                           const std::string& peak) {
  return absl::StrCat("\nmemprofctl: ", target.comm(), pid_text, ", OCaml ",
                      target.runtime_version(), ", ", extent, "; ",
                      samples_text(target.allocated().samples()), "\n", "  allocated         ",
                      estimate_text(target.allocated()), "\n  ", peak_name, "  ", peak,
                      "\n  live at the end   ", estimate_text(target.live()), "\n");
}

absl::StatusOr<std::string> report(SnapshotSource& run, Questions& questions, int pid,
                                   const std::string& pid_text,
                                   std::optional<double> allocated_words,
                                   const ReportWords& words) {
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr snapshot, run.snapshot(pid));
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, questions.list_targets());
  const pb::Target& target = targets.targets(0);
  pb::GetHistoryRequest request;
  request.mutable_selection()->set_pid(pid);
  request.set_measure(pb::MEASURE_LIVE);
  request.set_points(2);
  ASSIGN_OR_RETURN(const pb::GetHistoryResponse history, questions.get_history(request));
  const double seconds = static_cast<double>(snapshot->time_ns - snapshot->attached_ns) / 1e9;
  std::string out =
      head_of_report(target, pid_text, absl::StrCat(words.lasted, format_duration(seconds)),
                     "live at the peak", peak_text(history, snapshot->attached_ns, words));
  ASSIGN_OR_RETURN(const std::string at_peak, top_sites(questions, pid, pb::MEASURE_LIVE, true));
  ASSIGN_OR_RETURN(const std::string allocated,
                   top_sites(questions, pid, pb::MEASURE_ALLOCATED, false));
  out += no_samples_text(*snapshot, allocated_words);
  if (!at_peak.empty()) absl::StrAppend(&out, "\nLive at the peak\n", at_peak);
  if (!allocated.empty()) absl::StrAppend(&out, "\nAllocated\n", allocated);
  return out;
}

std::string losses_of(const std::string& whose, const pb::Target& target) {
  if (target.dropped_events() == 0) return "";
  return absl::StrCat(
      "memprofctl: lost ", losses_text(target), whose, "; ",
      used_its_own_tracker(target) ? kDomainInUseText : "a lower --sampling-rate loses less", "\n");
}

std::string damage_of(const std::string& program, const RunTarget& run) {
  if (!run.agent().damaged()) return "";
  return absl::StrCat("memprofctl: ", program,
                      " overwrote the memory that its agent shares; later samples are missing\n");
}

absl::Status write_results(RunTarget& run, RunFiles& files, bool quiet, const std::string& pid_text,
                           const ReportWords& words) {
  const std::unique_ptr<Questions> questions = ask_source(run);
  const absl::Status written = files.finish(*questions, run.pid());  // the report comes anyway
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, questions->list_targets());
  std::fputs(absl::StrCat(losses_of("", targets.targets(0)), damage_of("the program", run)).c_str(),
             stderr);
  if (!quiet) {
    ASSIGN_OR_RETURN(const std::string text,
                     report(run, *questions, run.pid(), pid_text, run.allocated_words(), words));
    std::fputs(text.c_str(), stderr);
  }
  return written;
}

}  // namespace memprofd::ctl
