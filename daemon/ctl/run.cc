// SPDX-License-Identifier: Apache-2.0
// memprofctl run: a program from its first allocation to its end, without memprofd.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/heap_rules.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/render/render_json.h"
#include "daemon/ctl/render/render_table.h"
#include "daemon/ctl/render/text.h"
#include "daemon/export/formats/profile_formats.h"
#include "daemon/run/run_target.h"
#include "daemon/run/started_program.h"
#include "daemon/snapshot/file/new_file.h"
#include "daemon/trace/recorder.h"
#include "daemon/util/clock.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd::ctl {
namespace {

constexpr std::chrono::milliseconds kPace{5};  // between looks at the ring
constexpr double kRunRate = 1e-4;              // samples per word
constexpr std::uint32_t kReportRows = 5;
constexpr char kTraceEnding[] = ".ctf", kJsonEnding[] = ".json", kFoldedEnding[] = ".folded";
constexpr int kBroken = 1;
constexpr int kKilled = 128;  // plus the signal, as shells say it

// ---------------------------------------------------------------- files

// Null: a trace, or JSON. kInvalidArgument: no format has that ending.
absl::StatusOr<const ProfileFormatRow*> format_of(const std::string& file) {
  std::string endings = absl::StrCat(kTraceEnding, ", ", kFoldedEnding, ", ", kJsonEnding);
  for (const ProfileFormatRow& row : profile_formats()) {
    if (absl::EndsWith(file, row.extension)) return &row;
    absl::StrAppend(&endings, ", ", row.extension);
  }
  if (absl::EndsWith(file, kFoldedEnding)) return find_profile_format("collapsed");
  if (absl::EndsWith(file, kTraceEnding) || absl::EndsWith(file, kJsonEnding)) return nullptr;
  return absl::InvalidArgumentError(
      absl::StrCat("--out ", file, ": the name's ending selects the format: ", endings));
}

// A trace that is written while the program runs. It has its name once it is complete.
class RunTrace : public TraceOutput {
 public:
  static absl::StatusOr<std::unique_ptr<RunTrace>> create(const std::string& path) {
    ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
    return std::unique_ptr<RunTrace>(new RunTrace(std::move(file)));
  }
  ~RunTrace() override {
    if (thread_.joinable()) thread_.join();
  }

  absl::Status begin_file() override { return absl::OkStatus(); }
  absl::Status write(std::span<const std::byte> packet) override {
    return file_.write({reinterpret_cast<const char*>(packet.data()), packet.size()});
  }

  absl::Status begin(RunTarget& target) {
    ASSIGN_OR_RETURN(recorder_, TraceRecorder::start(target, target.pid(), *this, {}));
    thread_ = std::thread([this] {
      while (recorder_->step()) {
      }
    });
    return absl::OkStatus();
  }
  bool begun() const { return recorder_ != nullptr; }
  // After the target's end.
  absl::Status finish() {
    if (thread_.joinable()) thread_.join();
    return file_.finish();
  }

 private:
  explicit RunTrace(NewFile file) : file_(std::move(file)) {}

  NewFile file_;
  std::unique_ptr<TraceRecorder> recorder_;
  std::thread thread_;
};

// All that is written besides the report.
class RunFiles {
 public:
  // Refuses before the program starts what could not be written after its end.
  static absl::StatusOr<RunFiles> open(const std::vector<std::string>& names) {
    RunFiles files;
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const ProfileFormatRow* format, format_of(name));
      if (absl::EndsWith(name, kTraceEnding)) {
        ASSIGN_OR_RETURN(std::unique_ptr<RunTrace> trace, RunTrace::create(name));
        files.traces_.push_back(std::move(trace));
      } else {
        ASSIGN_OR_RETURN(NewFile file, NewFile::create(name));
        files.profiles_.push_back({std::move(file), format});
      }
    }
    return files;
  }

  absl::Status begin(RunTarget& target) {
    for (const auto& trace : traces_) {
      if (!trace->begun()) RETURN_IF_ERROR(trace->begin(target));
    }
    return absl::OkStatus();
  }
  absl::Status finish(Questions& questions, int pid) {
    for (const auto& trace : traces_) RETURN_IF_ERROR(trace->finish());
    for (Profile& profile : profiles_) {
      ASSIGN_OR_RETURN(const std::string text, content(questions, pid, profile.format));
      RETURN_IF_ERROR(profile.file.write(text));
      RETURN_IF_ERROR(profile.file.finish());
    }
    return absl::OkStatus();
  }

 private:
  struct Profile {
    NewFile file;
    const ProfileFormatRow* format;  // null: JSON
  };

  static absl::StatusOr<std::string> content(Questions& questions, int pid,
                                             const ProfileFormatRow* format) {
    if (format == nullptr) {
      pb::ListSitesRequest request;
      request.set_pid(pid);
      request.set_order(pb::MEASURE_ALLOCATED);
      request.set_with_callstacks(true);
      ASSIGN_OR_RETURN(const pb::ListSitesResponse sites, all_sites(questions, request));
      return answer_json(sites);
    }
    pb::GetProfileRequest request;
    request.add_pids(pid);
    request.set_format(format->proto);
    request.set_measure(pb::MEASURE_ALLOCATED);
    ASSIGN_OR_RETURN(pb::GetProfileResponse response, questions.get_profile(request));
    return std::move(*response.mutable_data());
  }

  std::vector<std::unique_ptr<RunTrace>> traces_;
  std::vector<Profile> profiles_;
};

// ---------------------------------------------------------------- the report

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

std::string peak_text(const pb::GetHistoryResponse& history, std::uint64_t began_ns) {
  if (history.peak_unix_ns() == 0) return "none";
  pb::Estimate peak;
  peak.set_bytes(history.peak_live_bytes());
  peak.set_bytes_stderr(history.peak_live_bytes_stderr());
  const double seconds =
      static_cast<double>(history.peak_unix_ns() - static_cast<std::int64_t>(began_ns)) / 1e9;
  return absl::StrCat(estimate_text(peak), ", ", format_duration(seconds), " after the start");
}

absl::StatusOr<std::string> report(RunTarget& run, Questions& questions) {
  const int pid = run.pid();
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr snapshot, run.snapshot(pid));
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, questions.list_targets());
  const pb::Target& target = targets.targets(0);
  pb::GetHistoryRequest request;
  request.mutable_selection()->set_pid(pid);
  request.set_measure(pb::MEASURE_LIVE);
  request.set_points(2);
  ASSIGN_OR_RETURN(const pb::GetHistoryResponse history, questions.get_history(request));
  std::string out = absl::StrCat(
      "\nmemprofctl: ", target.comm(), ", OCaml ", target.runtime_version(), ", ran for ",
      format_duration(static_cast<double>(snapshot->time_ns - snapshot->attached_ns) / 1e9), "; ",
      format_count(target.allocated().samples()), " samples\n", "  allocated         ",
      estimate_text(target.allocated()), "\n", "  live at the peak  ",
      peak_text(history, snapshot->attached_ns), "\n", "  live at the end   ",
      estimate_text(target.live()), "\n");
  ASSIGN_OR_RETURN(const std::string at_peak, top_sites(questions, pid, pb::MEASURE_LIVE, true));
  ASSIGN_OR_RETURN(const std::string allocated,
                   top_sites(questions, pid, pb::MEASURE_ALLOCATED, false));
  if (!at_peak.empty()) absl::StrAppend(&out, "\nLive at the peak\n", at_peak);
  if (!allocated.empty()) absl::StrAppend(&out, "\nAllocated\n", allocated);
  return out;
}

std::string losses_of(const RunTarget& run, const pb::Target& target) {
  std::string out;
  if (target.dropped_events() > 0) {
    absl::StrAppend(&out, "memprofctl: lost ", losses_text(target),
                    "; a lower --sampling-rate loses less\n");
  }
  if (run.agent().damaged()) {
    out +=
        "memprofctl: the program overwrote the memory that its agent shares; later samples are "
        "missing\n";
  }
  return out;
}

// Why there is nothing to report.
std::string why_nothing(const RunTarget& run, const std::string& program) {
  if (!run.problem().empty()) {
    return absl::StrCat("not profiled: ", program, " ", run.problem());
  }
  return absl::StrCat(
      "not profiled: no OCaml program has loaded the agent; ", program,
      " may be of another language, bytecode, statically linked or setuid, or may have cleared its "
      "environment (env -i, sudo): name the OCaml program itself");
}

// A broken rule is memprofctl's exit code unless the program has failed by itself.
absl::Status check(RunTarget& run, Questions& questions, const std::vector<HeapRule>& rules,
                   const Options& options) {
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr snapshot, run.snapshot(run.pid()));
  ASSIGN_OR_RETURN(const std::vector<RuleResult> results,
                   check_rules(questions, run.pid(), snapshot->info.sampling_rate, rules));
  const std::string& program = options.program[0];
  std::fputs(absl::StrCat(options.quiet ? "" : "\n", results_text(results)).c_str(), stderr);
  if (!options.rules->junit.empty()) {
    RETURN_IF_ERROR(write_result(results_junit(results, program), options.rules->junit));
  }
  if (!options.rules->markdown.empty()) {
    RETURN_IF_ERROR(write_result(results_markdown(results, program), options.rules->markdown));
  }
  const bool broken = std::ranges::any_of(results, &RuleResult::broken);
  if (broken && *options.program_exit == 0) *options.program_exit = kBroken;
  return absl::OkStatus();
}

absl::Status report_results(RunTarget& run, RunFiles& files, const std::vector<HeapRule>& rules,
                            const Options& options) {
  if (!run.begun()) return absl::FailedPreconditionError(why_nothing(run, options.program[0]));
  const std::unique_ptr<Questions> questions = ask_source(run);
  RETURN_IF_ERROR(files.finish(*questions, run.pid()));
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, questions->list_targets());
  std::fputs(losses_of(run, targets.targets(0)).c_str(), stderr);
  if (!options.quiet) {
    ASSIGN_OR_RETURN(const std::string text, report(run, *questions));
    std::fputs(text.c_str(), stderr);
  }
  return rules.empty() ? absl::OkStatus() : check(run, *questions, rules, options);
}

int exit_of(const ProgramEnd& end) {
  return end.cause == EndCause::kExit ? end.code : kKilled + end.code;
}

}  // namespace

absl::Status run_run(const Options& options) {
  ASSIGN_OR_RETURN(const double asked_rate, rate_of(options.rate, options.interval));
  std::vector<HeapRule> rules;
  if (options.rules) {
    ASSIGN_OR_RETURN(rules, parse_rules(*options.rules));
  }
  ASSIGN_OR_RETURN(const AgentFile agent,
                   open_agent_file(options.agent.empty() ? default_agent_path() : options.agent));
  ASSIGN_OR_RETURN(RunFiles files, RunFiles::open(options.outs));
  const std::string path = path_of_command(options.program[0]);
  ShareOptions share;
  share.rate = asked_rate > 0 ? asked_rate : kRunRate;
  ASSIGN_OR_RETURN(const std::unique_ptr<RunTarget> run,
                   RunTarget::create(path, path.substr(path.rfind('/') + 1), share));
  ASSIGN_OR_RETURN(StartedProgram program,
                   StartedProgram::start({options.program, agent.path, run->descriptor()}));
  absl::Status recording;
  for (bool ended = false; !ended;) {
    ended = program.wait(kPace);
    run->update();
    if (run->begun() && recording.ok()) recording = files.begin(*run);
  }
  const ProgramEnd end = ProgramEnd::of_status(program.status(), false);
  *options.program_exit = exit_of(end);
  run->finish(end);
  const absl::Status reported =
      recording.ok() ? report_results(*run, files, rules, options) : recording;
  // A check that could not be made is no success.
  if (!reported.ok() && options.rules && end == ProgramEnd{.cause = EndCause::kExit}) {
    *options.program_exit = static_cast<int>(exit_code_of(reported));
  }
  return reported;
}

}  // namespace memprofd::ctl
