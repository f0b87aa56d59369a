// SPDX-License-Identifier: Apache-2.0
// memprofctl run and check: profile a program from its first allocation to its end, without
// memprofd.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_file.h"
#include "daemon/ctl/arguments.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/questions.h"
#include "daemon/ctl/render/text.h"
#include "daemon/ctl/run_files.h"
#include "daemon/ctl/run_live.h"
#include "daemon/ctl/run_options.h"
#include "daemon/ctl/run_pid.h"
#include "daemon/ctl/run_report.h"
#include "daemon/ctl/snapshot/whole_image.h"
#include "daemon/run/checked_program.h"
#include "daemon/run/program_sum.h"
#include "daemon/run/run_children.h"
#include "daemon/run/run_program.h"
#include "daemon/run/run_target.h"
#include "daemon/run/started_program.h"
#include "daemon/util/base_name.h"
#include "daemon/util/clock.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"
#include "daemon/util/utf8.h"

namespace memprofd::ctl {
namespace {

constexpr std::chrono::milliseconds kPace{5};  // between two readings of the ring
constexpr int kBroken = 1;
constexpr int kKilled = 128;  // plus the signal's number, as in shells

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
  explicit ChildReports(const RunOptions& options)
      : each_(options.children == kEachChild),
        outs_(options.outs),
        trace_version_(options.trace_version) {}

  void began(RunTarget& target) override {
    ++processes_;
    if (!each_ || outs_.empty()) return;
    if (processes_ > kMaxFiles) {
      ++without_files_;
      return;
    }
    absl::StatusOr<RunFiles> files =
        RunFiles::open(names(absl::StrCat(target.comm(), ".", target.pid())), trace_version_);
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
      keep({*snapshot, target.allocated_words()});
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
  static constexpr std::size_t kMaxFiles = 1000;   // processes with files of their own
  static constexpr std::size_t kMaxReports = 20;   // of single processes
  static constexpr std::size_t kMaxPrograms = 64;  // with a sum

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

  struct Process {
    ProfileSnapshotPtr snapshot;  // the last one
    std::optional<double> allocated_words;
  };

  // Keeps the processes that have allocated most, for the report.
  void keep(Process process) {
    const auto first = [](const Process& a, const Process& b) {
      return a.snapshot->counters.all_allocated().words >
             b.snapshot->counters.all_allocated().words;
    };
    kept_.push_back(std::move(process));
    std::ranges::stable_sort(kept_, first);
    if (kept_.size() > kMaxReports) kept_.pop_back();
  }

  absl::Status add(const RunTarget& target, const ProfileSnapshot& snapshot, bool forked) {
    const auto found =
        std::ranges::find(sums_, &target.program(), [](const Sum& sum) { return sum.program; });
    if (found != sums_.end()) {
      found->counts->add(snapshot, target.load_bias(), forked, target.allocated_words());
      return absl::OkStatus();
    }
    if (sums_.size() >= kMaxPrograms) {
      ++without_sum_;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(std::unique_ptr<ProgramSum> counts,
                     ProgramSum::create(target.program().shared_from_this()));
    counts->add(snapshot, target.load_bias(), forked, target.allocated_words());
    sums_.push_back({&target.program(), std::move(counts)});
    return absl::OkStatus();
  }

  // A trace describes one process, so sums have none.
  absl::Status write_sums() {
    std::erase_if(outs_, is_trace_file);
    for (const Sum& sum : sums_) {
      ASSIGN_OR_RETURN(const ProfileSnapshotPtr snapshot, sum.counts->snapshot(0));
      ASSIGN_OR_RETURN(RunFiles files, RunFiles::open(names(snapshot->info.comm), trace_version_));
      RETURN_IF_ERROR(files.finish(*ask_source(*sum.counts), snapshot->info.pid));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> text_of_each() const {
    std::string out;
    for (const auto& [snapshot, allocated_words] : kept_) {
      LastSnapshot source(snapshot);
      const std::unique_ptr<Questions> questions = ask_source(source);
      const int pid = snapshot->info.pid;
      ASSIGN_OR_RETURN(
          const std::string text,
          report(source, *questions, pid, absl::StrCat(", pid ", pid), allocated_words));
      ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, questions->list_targets());
      absl::StrAppend(&out, text, losses_of(absl::StrCat(" of pid ", pid), targets.targets(0)));
    }
    if (processes_ > kept_.size()) {
      absl::StrAppend(&out, "\nmemprofctl: ", processes_ - kept_.size(),
                      " more processes, with fewer allocations, are not shown\n");
    }
    if (without_files_ > 0) {
      absl::StrAppend(&out, "memprofctl: no files were written for ", without_files_,
                      " processes, only for the first ", kMaxFiles, "\n");
    }
    return out;
  }

  absl::StatusOr<std::string> text_of_sums() const {
    std::string out;
    for (const Sum& sum : sums_) {
      const std::unique_ptr<Questions> questions = ask_source(*sum.counts);
      ASSIGN_OR_RETURN(const pb::ListTargetsResponse targets, questions->list_targets());
      const pb::Target& target = targets.targets(0);
      ASSIGN_OR_RETURN(const ProfileSnapshotPtr snapshot, sum.counts->snapshot(0));
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
      out += no_samples_text(*snapshot, sum.counts->allocated_words());
      ASSIGN_OR_RETURN(const std::string allocated,
                       top_sites(*questions, target.pid(), pb::MEASURE_ALLOCATED, false));
      if (!allocated.empty()) absl::StrAppend(&out, "\nAllocated\n", allocated);
      absl::StrAppend(&out, losses_of(absl::StrCat(" of ", target.comm()), target));
    }
    if (without_sum_ > 0) {
      absl::StrAppend(&out, "\nmemprofctl: ", without_sum_,
                      " processes of other programs are not shown: only ", kMaxPrograms,
                      " programs are summed\n");
    }
    return out;
  }

  struct Sum {
    const RunProgram* program;
    std::unique_ptr<ProgramSum> counts;
  };

  const bool each_;
  std::vector<std::string> outs_;
  const int trace_version_;
  std::uint64_t processes_ = 0, without_files_ = 0, without_sum_ = 0;
  std::map<const RunTarget*, RunFiles> files_;
  std::map<std::string, int> labels_;
  std::vector<Process> kept_;
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
    return absl::StrCat("not profiled: ", program, ": ", run.problem());
  }
  return absl::StrCat(
      "not profiled: no OCaml program has loaded the agent; ", program,
      " may be written in another language, be bytecode, statically linked or setuid, or have "
      "cleared its environment (env -i, sudo); run the OCaml program itself");
}

// If a rule is broken, memprofctl's exit code shows that, unless the program itself has failed. A
// rule that could not be checked is an error.
absl::Status check(RunTarget& run, const std::vector<MemoryRule>& rules,
                   const CheckedProgram& checked, const RunOptions& own, int& program_exit,
                   std::vector<CheckResult>& results) {
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr snapshot, run.snapshot(run.pid()));
  results = check_rules(*snapshot, rules);
  for (const AssertionOutcome& outcome : checked.outcomes()) results.push_back(result_of(outcome));
  if (std::string why = checked.why_not_checked(snapshot->info.end); !why.empty()) {
    results.push_back({"assertions of the program", RuleVerdict::kUnknown,
                       absl::StrCat("not checked: ", printable(why))});
  }
  if (rules.empty() && results.empty()) return no_rule();
  const std::string others = rules_of_others_text(rules, snapshot->info.comm);
  if (results.empty()) return absl::FailedPreconditionError("nothing was checked: " + others);
  if (!others.empty()) std::fputs(absl::StrCat("memprofctl: ", others, "\n").c_str(), stderr);
  std::fputs(absl::StrCat(own.quiet ? "" : "\n", results_text(results)).c_str(), stderr);
  const auto any = [&](RuleVerdict verdict) {
    return std::ranges::find(results, verdict, &CheckResult::verdict) != results.end();
  };
  if (any(RuleVerdict::kBroken)) {
    if (program_exit == 0) program_exit = kBroken;
  } else if (any(RuleVerdict::kUnknown)) {
    return absl::FailedPreconditionError("some rules or assertions could not be checked");
  }
  return absl::OkStatus();
}

absl::Status report_results(RunTarget& run, RunFiles& files, const std::vector<MemoryRule>& rules,
                            const CheckedProgram* checked, const RunOptions& own, int& program_exit,
                            std::vector<CheckResult>& results) {
  if (!run.begun()) return absl::FailedPreconditionError(why_nothing(run, own.program[0]));
  RETURN_IF_ERROR(write_results(run, files, own.quiet, "", {}));
  return checked == nullptr ? absl::OkStatus()
                            : check(run, rules, *checked, own, program_exit, results);
}

absl::Status report_children(ChildReports& reports, bool quiet) {
  ASSIGN_OR_RETURN(const std::string text, reports.finish());
  std::fputs(absl::StrCat(reports.damages(), quiet ? "" : text).c_str(), stderr);
  return absl::OkStatus();
}

int exit_of(const ProgramEnd& end) {
  if (end.cause == EndCause::kUnknown) return static_cast<int>(ExitCode::kInternal);
  return end.cause == EndCause::kExit ? end.code : kKilled + end.code;
}

// Name of a result that a check has only if the program failed.
constexpr char kProgramSucceeds[] = "the program succeeds";

// results: those of a check, as far as it came.
absl::Status run_to_end(const Options& options, const RunOptions& own,
                        const std::vector<MemoryRule>& rules, std::vector<CheckResult>& results) {
  ASSIGN_OR_RETURN(const double asked_rate, rate_of(options.rate, options.interval));
  ASSIGN_OR_RETURN(const AgentFile agent,
                   open_agent_file(own.agent.empty() ? default_agent_path() : own.agent));
  ASSIGN_OR_RETURN(RunFiles files, RunFiles::open(own.outs, own.trace_version));
  ShareOptions share;
  share.rate = asked_rate > 0 ? asked_rate : kRunRate;
  if (options.pid != 0) return profile_running(options.pid, own, agent, share.rate, files);
  const std::string path = path_of_command(own.program[0]);
  RunPrograms programs;
  std::optional<CheckedProgram> checked;
  if (own.rules) {
    // A file of another kind may be a script that starts a program with assertions.
    if (rules.empty() && programs.find(path).ok() && !may_assert(path)) return no_rule();
    checked.emplace(agent, quantile_of_chance(RuleCheck().chance),
                    [](const std::string& file) { return read_whole_image(file, {}); });
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<RunTarget> run,
                   RunTarget::create(programs, path, std::string(base_name(path)), share));
  ChildReports reports(own);
  std::unique_ptr<RunChildren> children;
  // Rules apply to the program itself.
  if (!own.rules && own.children != kNoChildren) {
    ASSIGN_OR_RETURN(children, RunChildren::create(share, programs, reports));
  }
  ASSIGN_OR_RETURN(StartedProgram program,
                   StartedProgram::start({own.program, agent.path, run->descriptor(),
                                          children != nullptr ? children->socket_name() : "",
                                          checked.has_value()}));
  std::optional<LiveFrames> live;
  if (own.live) live.emplace(*run);
  absl::Status recording;
  for (bool ended = false; !ended;) {
    ended = program.wait(kPace, children != nullptr ? children->descriptor() : -1);
    run->update();
    if (run->begun() && recording.ok()) recording = files.begin(*run);
    if (checked && !ended) checked->update(*run);
    if (children != nullptr) children->update();
    if (live) live->update();
  }
  const ProgramEnd end = program.end();
  int& program_exit = *options.program_exit;
  program_exit = exit_of(end);
  run->finish(end);
  if (checked) checked->finish(*run);
  if (children != nullptr) children->finish();
  absl::Status reported = recording.ok()
                              ? report_results(*run, files, rules, checked ? &*checked : nullptr,
                                               own, program_exit, results)
                              : recording;
  if (reports.processes() > 0) {
    // The program itself may be a script, or written in another language.
    if (!run->begun()) reported = absl::OkStatus();
    reported.Update(report_children(reports, own.quiet));
  }
  if (reported.ok() && children != nullptr && !own.quiet) {
    std::fputs(not_profiled_text(*children).c_str(), stderr);
  }
  if (end.cause == EndCause::kUnknown) {
    reported.Update(absl::InternalError(absl::StrCat(
        "the exit code of ", own.program[0], " is unknown, because waitid() is not permitted")));
  }
  // A check that could not be made is a failure.
  if (!reported.ok() && own.rules && end == ProgramEnd{.cause = EndCause::kExit}) {
    program_exit = static_cast<int>(exit_code_of(reported));
  }
  if (own.rules && end != ProgramEnd{.cause = EndCause::kExit}) {
    results.push_back({kProgramSucceeds, RuleVerdict::kBroken, end_text(end)});
  }
  return reported;
}

}  // namespace

absl::Status run_run(const Options& options, const RunOptions& own) {
  if (own.program.empty() && options.pid == 0) {
    return absl::InvalidArgumentError(
        "name the program to run, after --, or a process that runs with --pid PID");
  }
  std::vector<CheckResult> results;
  if (!own.rules) return run_to_end(options, own, {}, results);
  const auto not_checked = [](std::string_view why) {
    return CheckResult{"the check", RuleVerdict::kUnknown, std::string(why)};
  };
  const std::string& program = own.program[0];
  const absl::Status writable =
      write_check_files(*own.rules, {not_checked("memprofctl was killed")}, program, false);
  const absl::StatusOr<std::vector<MemoryRule>> rules = parse_rules(*own.rules);
  const absl::Status status = !writable.ok() ? writable
                              : !rules.ok()  ? rules.status()
                                             : run_to_end(options, own, *rules, results);
  const bool has_rules = std::ranges::any_of(
      results, [](const CheckResult& result) { return result.name != kProgramSucceeds; });
  if (!status.ok() && !has_rules) {
    results.push_back(not_checked({status.message().data(), status.message().size()}));
  }
  const absl::Status written = write_check_files(*own.rules, results, program, true);
  return status.ok() ? written : status;
}

}  // namespace memprofd::ctl
