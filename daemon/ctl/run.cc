// SPDX-License-Identifier: Apache-2.0
// memprofctl run: profiles a program from its first allocation to its end, without memprofd.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
#include "daemon/ctl/snapshot/whole_image.h"
#include "daemon/ctl/top/top_question.h"
#include "daemon/ctl/top/top_render.h"
#include "daemon/ctl/top/top_terminal.h"
#include "daemon/export/formats/profile_formats.h"
#include "daemon/run/checked_program.h"
#include "daemon/run/program_sum.h"
#include "daemon/run/run_children.h"
#include "daemon/run/run_program.h"
#include "daemon/run/run_target.h"
#include "daemon/run/started_program.h"
#include "daemon/snapshot/file/new_file.h"
#include "daemon/trace/recorder.h"
#include "daemon/util/base_name.h"
#include "daemon/util/clock.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

constexpr std::chrono::milliseconds kPace{5};  // between two readings of the ring
constexpr double kRunRate = 1e-4;              // samples per word
constexpr std::uint32_t kReportRows = 5;
constexpr std::uint32_t kLiveRows = 10;
constexpr std::chrono::seconds kLivePace{1};
constexpr char kTraceEnding[] = ".ctf", kJsonEnding[] = ".json", kFoldedEnding[] = ".folded";
constexpr int kBroken = 1;
constexpr int kKilled = 128;  // plus the signal's number, as in shells

// ---------------------------------------------------------------- files

struct FileFormat {
  std::string_view ending;
  const ProfileFormatRow* profile = nullptr;  // null: a trace, or JSON
};

// kInvalidArgument: no format has this ending.
absl::StatusOr<FileFormat> format_of(const std::string& file) {
  std::string endings = absl::StrCat(kTraceEnding, ", ", kFoldedEnding, ", ", kJsonEnding);
  for (const ProfileFormatRow& row : profile_formats()) {
    if (absl::EndsWith(file, row.extension)) return FileFormat{row.extension, &row};
    absl::StrAppend(&endings, ", ", row.extension);
  }
  if (absl::EndsWith(file, kFoldedEnding)) {
    return FileFormat{kFoldedEnding, find_profile_format("collapsed")};
  }
  if (absl::EndsWith(file, kTraceEnding)) return FileFormat{kTraceEnding};
  if (absl::EndsWith(file, kJsonEnding)) return FileFormat{kJsonEnding};
  return absl::InvalidArgumentError(
      absl::StrCat("--out ", file, ": the name's ending selects the format: ", endings));
}

// "a.html" and "worker" make "a.worker.html".
std::string labelled(const std::string& file, const std::string& label) {
  const absl::StatusOr<FileFormat> format = format_of(file);
  const std::size_t ending = format.ok() ? format->ending.size() : 0;
  const std::size_t end = file.size() - ending;
  return absl::StrCat(file.substr(0, end), ".", label, file.substr(end));
}

// A trace that is written while the program runs. The file gets its name when it is complete.
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
  // Call after the target's end.
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

// All output files besides the report.
class RunFiles {
 public:
  // Refuses before the program starts if an output could not be written after its end.
  static absl::StatusOr<RunFiles> open(const std::vector<std::string>& names) {
    RunFiles files;
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const FileFormat format, format_of(name));
      if (format.ending == kTraceEnding) {
        ASSIGN_OR_RETURN(std::unique_ptr<RunTrace> trace, RunTrace::create(name));
        files.traces_.push_back(std::move(trace));
      } else {
        ASSIGN_OR_RETURN(NewFile file, NewFile::create(name));
        files.profiles_.push_back({std::move(file), format.profile});
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

// extent: "ran for 3 s", or the number of processes. peak_name: padded to 16 columns.
std::string head_of_report(const pb::Target& target, const std::string& pid_text,
                           const std::string& extent, const char* peak_name,
                           const std::string& peak) {
  return absl::StrCat("\nmemprofctl: ", target.comm(), pid_text, ", OCaml ",
                      target.runtime_version(), ", ", extent, "; ",
                      format_count(target.allocated().samples()), " samples\n",
                      "  allocated         ", estimate_text(target.allocated()), "\n  ", peak_name,
                      "  ", peak, "\n  live at the end   ", estimate_text(target.live()), "\n");
}

absl::StatusOr<std::string> report(SnapshotSource& run, Questions& questions, int pid,
                                   const std::string& pid_text) {
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
      head_of_report(target, pid_text, absl::StrCat("ran for ", format_duration(seconds)),
                     "live at the peak", peak_text(history, snapshot->attached_ns));
  ASSIGN_OR_RETURN(const std::string at_peak, top_sites(questions, pid, pb::MEASURE_LIVE, true));
  ASSIGN_OR_RETURN(const std::string allocated,
                   top_sites(questions, pid, pb::MEASURE_ALLOCATED, false));
  if (!at_peak.empty()) absl::StrAppend(&out, "\nLive at the peak\n", at_peak);
  if (!allocated.empty()) absl::StrAppend(&out, "\nAllocated\n", allocated);
  return out;
}

// whose: " of worker", or empty.
std::string losses_of(const std::string& whose, const pb::Target& target) {
  if (target.dropped_events() == 0) return "";
  return absl::StrCat("memprofctl: lost ", losses_text(target), whose,
                      "; a lower --sampling-rate loses less\n");
}

std::string damage_of(const std::string& program, const RunTarget& run) {
  if (!run.agent().damaged()) return "";
  return absl::StrCat("memprofctl: ", program,
                      " overwrote the memory that its agent shares; later samples are missing\n");
}

// ---------------------------------------------------------------- live output

// Prints live memory once a second.
class LiveFrames {
 public:
  explicit LiveFrames(RunTarget& run) : run_(run), questions_(ask_source(run)) {
    view_.limit = kLiveRows;
    view_.filter.set_frames(pb::FRAMES_APPLICATION);
  }

  void update() {
    const auto now = std::chrono::steady_clock::now();
    if (!run_.begun() || now < next_) return;
    next_ = now + kLivePace;
    run_.refresh();
    view_.pid = run_.pid();
    const TopAnswer answer = ask_top(*questions_, view_);
    // Without an answer there is no frame; the next second has one.
    if (answer.status.ok()) {
      std::fputs(absl::StrCat(top_text(answer, charset_), "\n").c_str(), stderr);
    }
  }

 private:
  RunTarget& run_;
  const std::unique_ptr<Questions> questions_;
  const Charset charset_ = terminal_charset();
  TopViewState view_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kLivePace;
};

// ---------------------------------------------------------------- children

// The last snapshot of a process that has ended.
class LastSnapshot : public SnapshotSource {
 public:
  explicit LastSnapshot(ProfileSnapshotPtr snapshot) : snapshot_(std::move(snapshot)) {}
  absl::StatusOr<ProfileSnapshotPtr> snapshot(int) override { return snapshot_; }
  std::vector<ProfileSnapshotPtr> snapshots() override { return {snapshot_}; }

 private:
  const ProfileSnapshotPtr snapshot_;
};

// Reports about the processes that the program forks or starts.
class ChildReports : public RunChildrenUser {
 public:
  explicit ChildReports(const Options& options)
      : each_(options.children == kEachChild), outs_(options.outs) {}

  void began(RunTarget& target) override {
    ++processes_;
    if (!each_ || outs_.empty()) return;
    if (processes_ > kMostFiles) {
      ++without_files_;
      return;
    }
    absl::StatusOr<RunFiles> files =
        RunFiles::open(names(absl::StrCat(target.comm(), ".", target.pid())));
    if (!files.ok()) return note(files.status());
    note(files->begin(target));
    files_.emplace(&target, *std::move(files));
  }

  void ended(RunTarget& target, bool forked) override {
    const auto snapshot = target.snapshot(target.pid());
    if (!snapshot.ok()) return note(snapshot.status());
    damages_ += damage_of(absl::StrCat(target.comm(), ", pid ", target.pid(), ","), target);
    if (each_) {
      finish_files(target);
      keep(*snapshot);
    } else {
      note(add(target, **snapshot, forked));
    }
  }

  std::uint64_t processes() const { return processes_; }

  // Runs after the last end: writes the files of sums, and returns the report or the first error.
  absl::StatusOr<std::string> finish() {
    if (!each_) RETURN_IF_ERROR(write_sums());
    RETURN_IF_ERROR(first_error_);
    return each_ ? text_of_each() : text_of_sums();
  }
  const std::string& damages() const { return damages_; }

 private:
  static constexpr std::size_t kMostFiles = 1000;   // processes with files of their own
  static constexpr std::size_t kMostReports = 20;   // of single processes
  static constexpr std::size_t kMostPrograms = 64;  // with a sum

  void note(const absl::Status& status) { first_error_.Update(status); }

  // Returns each label only once.
  std::vector<std::string> names(std::string label) {
    if (const int times = ++labels_[label]; times > 1) absl::StrAppend(&label, "-", times);
    std::vector<std::string> names;
    for (const std::string& out : outs_) names.push_back(labelled(out, label));
    return names;
  }

  void finish_files(RunTarget& target) {
    const auto files = files_.find(&target);
    if (files == files_.end()) return;
    note(files->second.finish(*ask_source(target), target.pid()));
    files_.erase(files);
  }

  // Keeps the processes that have allocated most, for the report.
  void keep(ProfileSnapshotPtr snapshot) {
    const auto first = [](const ProfileSnapshotPtr& a, const ProfileSnapshotPtr& b) {
      return a->counters.all_allocated().words > b->counters.all_allocated().words;
    };
    kept_.push_back(std::move(snapshot));
    std::ranges::stable_sort(kept_, first);
    if (kept_.size() > kMostReports) kept_.pop_back();
  }

  absl::Status add(const RunTarget& target, const ProfileSnapshot& snapshot, bool forked) {
    const auto found =
        std::ranges::find(sums_, &target.program(), [](const Sum& sum) { return sum.program; });
    if (found != sums_.end()) {
      found->counts->add(snapshot, target.load_bias(), forked);
      return absl::OkStatus();
    }
    if (sums_.size() >= kMostPrograms) {
      ++without_sum_;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(std::unique_ptr<ProgramSum> counts,
                     ProgramSum::create(target.program().shared_from_this()));
    counts->add(snapshot, target.load_bias(), forked);
    sums_.push_back({&target.program(), std::move(counts)});
    return absl::OkStatus();
  }

  // A trace describes one process, so sums have none.
  absl::Status write_sums() {
    std::erase_if(outs_, [](const std::string& out) { return absl::EndsWith(out, kTraceEnding); });
    for (const Sum& sum : sums_) {
      ASSIGN_OR_RETURN(const ProfileSnapshotPtr snapshot, sum.counts->snapshot(0));
      ASSIGN_OR_RETURN(RunFiles files, RunFiles::open(names(snapshot->info.comm)));
      RETURN_IF_ERROR(files.finish(*ask_source(*sum.counts), snapshot->info.pid));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> text_of_each() const {
    std::string out;
    for (const ProfileSnapshotPtr& snapshot : kept_) {
      LastSnapshot source(snapshot);
      const std::unique_ptr<Questions> questions = ask_source(source);
      const int pid = snapshot->info.pid;
      ASSIGN_OR_RETURN(const std::string text,
                       report(source, *questions, pid, absl::StrCat(", pid ", pid)));
      ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, questions->list_targets());
      absl::StrAppend(&out, text, losses_of(absl::StrCat(" of pid ", pid), targets.targets(0)));
    }
    if (processes_ > kept_.size()) {
      absl::StrAppend(&out, "\nmemprofctl: ", processes_ - kept_.size(),
                      " more processes, which allocated less\n");
    }
    if (without_files_ > 0) {
      absl::StrAppend(&out, "memprofctl: ", without_files_, " processes have no files: the first ",
                      kMostFiles, " have\n");
    }
    return out;
  }

  absl::StatusOr<std::string> text_of_sums() const {
    std::string out;
    for (const Sum& sum : sums_) {
      const std::unique_ptr<Questions> questions = ask_source(*sum.counts);
      ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, questions->list_targets());
      const pb::Target& target = targets.targets(0);
      const Estimate& peak = sum.counts->largest_peak();
      pb::Estimate largest;
      largest.set_bytes(peak.bytes());
      largest.set_bytes_stderr(peak.stderr_bytes());
      const std::uint64_t processes = sum.counts->processes();
      const std::string peak_words =
          peak.samples == 0
              ? "none"
              : absl::StrCat(estimate_text(largest), ", pid ", sum.counts->pid_of_largest());
      out += head_of_report(
          target, "",
          absl::StrCat(processes, processes == 1 ? " other process" : " other processes"),
          "largest peak    ", peak_words);
      ASSIGN_OR_RETURN(const std::string allocated,
                       top_sites(*questions, target.pid(), pb::MEASURE_ALLOCATED, false));
      if (!allocated.empty()) absl::StrAppend(&out, "\nAllocated\n", allocated);
      absl::StrAppend(&out, losses_of(absl::StrCat(" of ", target.comm()), target));
    }
    if (without_sum_ > 0) {
      absl::StrAppend(&out, "\nmemprofctl: ", without_sum_,
                      " processes are of further programs: ", "no more than ", kMostPrograms,
                      " are summed\n");
    }
    return out;
  }

  struct Sum {
    const RunProgram* program;
    std::unique_ptr<ProgramSum> counts;
  };

  const bool each_;
  std::vector<std::string> outs_;
  std::uint64_t processes_ = 0, without_files_ = 0, without_sum_ = 0;
  std::map<const RunTarget*, RunFiles> files_;
  std::map<std::string, int> labels_;
  std::vector<ProfileSnapshotPtr> kept_;
  std::vector<Sum> sums_;
  std::string damages_;
  absl::Status first_error_;
};

// One line for each reason.
std::string not_profiled_text(const RunChildren& children) {
  std::map<std::string, std::string> by_reason;
  for (const auto& [process, times] : children.not_profiled()) {
    std::string& names = by_reason[process.second];
    absl::StrAppend(&names, names.empty() ? "" : ", ", process.first);
    if (times > 1) absl::StrAppend(&names, " (", times, " processes)");
  }
  std::string out;
  for (const auto& [reason, names] : by_reason) {
    absl::StrAppend(&out, "memprofctl: not profiled: ", names, ": ", reason, "\n");
  }
  if (children.unnamed() > 0) {
    absl::StrAppend(&out, "memprofctl: not profiled: ", children.unnamed(), " more processes\n");
  }
  return out.empty() ? out : absl::StrCat("\n", out);
}

// ---------------------------------------------------------------- the command

// The reason why there is nothing to report.
std::string why_nothing(const RunTarget& run, const std::string& program) {
  if (!run.problem().empty()) {
    return absl::StrCat("not profiled: ", program, " ", run.problem());
  }
  return absl::StrCat(
      "not profiled: no OCaml program has loaded the agent; ", program,
      " may be of another language, bytecode, statically linked or setuid, or may have cleared its "
      "environment (env -i, sudo): name the OCaml program itself");
}

// If a rule is broken, memprofctl's exit code shows that, unless the program itself has failed. A
// rule that could not be checked is an error.
absl::Status check(RunTarget& run, const std::vector<MemoryRule>& rules,
                   const CheckedProgram& checked, const Options& options) {
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr snapshot, run.snapshot(run.pid()));
  std::vector<CheckResult> results = check_rules(*snapshot, rules);
  for (const AssertionOutcome& outcome : checked.outcomes()) results.push_back(result_of(outcome));
  if (std::string why = checked.why_not_checked(snapshot->info.end); !why.empty()) {
    results.push_back({"assertions of the program", RuleVerdict::kUnknown,
                       absl::StrCat("not checked: ", printable(why))});
  }
  if (rules.empty() && results.empty()) return no_rule();
  const std::string& program = options.program[0];
  std::fputs(absl::StrCat(options.quiet ? "" : "\n", results_text(results)).c_str(), stderr);
  if (!options.rules->junit.empty()) {
    RETURN_IF_ERROR(write_result(results_junit(results, program), options.rules->junit));
  }
  if (!options.rules->markdown.empty()) {
    RETURN_IF_ERROR(write_result(results_markdown(results, program), options.rules->markdown));
  }
  const auto any = [&](RuleVerdict verdict) {
    return std::ranges::find(results, verdict, &CheckResult::verdict) != results.end();
  };
  if (any(RuleVerdict::kBroken)) {
    if (*options.program_exit == 0) *options.program_exit = kBroken;
  } else if (any(RuleVerdict::kUnknown)) {
    return absl::FailedPreconditionError("some rules or assertions could not be checked");
  }
  return absl::OkStatus();
}

absl::Status report_results(RunTarget& run, RunFiles& files, const std::vector<MemoryRule>& rules,
                            const CheckedProgram* checked, const Options& options) {
  if (!run.begun()) return absl::FailedPreconditionError(why_nothing(run, options.program[0]));
  const std::unique_ptr<Questions> questions = ask_source(run);
  RETURN_IF_ERROR(files.finish(*questions, run.pid()));
  ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, questions->list_targets());
  std::fputs(absl::StrCat(losses_of("", targets.targets(0)), damage_of("the program", run)).c_str(),
             stderr);
  if (!options.quiet) {
    ASSIGN_OR_RETURN(const std::string text, report(run, *questions, run.pid(), ""));
    std::fputs(text.c_str(), stderr);
  }
  return checked == nullptr ? absl::OkStatus() : check(run, rules, *checked, options);
}

absl::Status report_children(ChildReports& reports, bool quiet) {
  ASSIGN_OR_RETURN(const std::string text, reports.finish());
  std::fputs(absl::StrCat(reports.damages(), quiet ? "" : text).c_str(), stderr);
  return absl::OkStatus();
}

int exit_of(const ProgramEnd& end) {
  return end.cause == EndCause::kExit ? end.code : kKilled + end.code;
}

}  // namespace

absl::Status run_run(const Options& options) {
  ASSIGN_OR_RETURN(const double asked_rate, rate_of(options.rate, options.interval));
  std::vector<MemoryRule> rules;
  if (options.rules) {
    ASSIGN_OR_RETURN(rules, parse_rules(*options.rules));
  }
  ASSIGN_OR_RETURN(const AgentFile agent,
                   open_agent_file(options.agent.empty() ? default_agent_path() : options.agent));
  ASSIGN_OR_RETURN(RunFiles files, RunFiles::open(options.outs));
  const std::string path = path_of_command(options.program[0]);
  ShareOptions share;
  share.rate = asked_rate > 0 ? asked_rate : kRunRate;
  RunPrograms programs;
  std::optional<CheckedProgram> checked;
  if (options.rules) {
    // A file of another kind may be a script that starts a program with assertions.
    if (rules.empty() && programs.find(path).ok() && !may_assert(path)) return no_rule();
    checked.emplace(agent, quantile_of_chance(RuleCheck().chance),
                    [](const std::string& file) { return read_whole_image(file, {}); });
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<RunTarget> run,
                   RunTarget::create(programs, path, std::string(base_name(path)), share));
  ChildReports reports(options);
  std::unique_ptr<RunChildren> children;
  // Rules apply to the program itself.
  if (!options.rules && options.children != kNoChildren) {
    ASSIGN_OR_RETURN(children, RunChildren::create(share, programs, reports));
  }
  ASSIGN_OR_RETURN(StartedProgram program,
                   StartedProgram::start({options.program, agent.path, run->descriptor(),
                                          children != nullptr ? children->socket_name() : "",
                                          checked.has_value()}));
  std::optional<LiveFrames> live;
  if (options.live) live.emplace(*run);
  absl::Status recording;
  for (bool ended = false; !ended;) {
    ended = program.wait(kPace, children != nullptr ? children->descriptor() : -1);
    run->update();
    if (run->begun() && recording.ok()) recording = files.begin(*run);
    if (checked && !ended) checked->update(*run);
    if (children != nullptr) children->update();
    if (live) live->update();
  }
  const ProgramEnd end = ProgramEnd::of_status(program.status(), false);
  *options.program_exit = exit_of(end);
  run->finish(end);
  if (children != nullptr) children->finish();
  absl::Status reported =
      recording.ok() ? report_results(*run, files, rules, checked ? &*checked : nullptr, options)
                     : recording;
  if (reports.processes() > 0) {
    // The program itself may be a script, or written in another language.
    if (!run->begun()) reported = absl::OkStatus();
    reported.Update(report_children(reports, options.quiet));
  }
  if (reported.ok() && children != nullptr && !options.quiet) {
    std::fputs(not_profiled_text(*children).c_str(), stderr);
  }
  // A check that could not be made is a failure.
  if (!reported.ok() && options.rules && end == ProgramEnd{.cause = EndCause::kExit}) {
    *options.program_exit = static_cast<int>(exit_code_of(reported));
  }
  return reported;
}

}  // namespace memprofd::ctl
