// SPDX-License-Identifier: Apache-2.0
#include "daemon/calls/call_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/discover/function_list.h"
#include "daemon/query/frame_filter.h"
#include "daemon/symbolize/function_names.h"
#include "daemon/symbolize/symbol_names.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

absl::StatusOr<FunctionList> choose(const Target& target, const CallsRequest& request) {
  ElfFile& program = *target.program;
  if (request.pattern.empty()) {
    return absl::InvalidArgumentError(
        "missing functions: give a pattern, such as 'Order_parser\\.*'");
  }
  ASSIGN_OR_RETURN(const Patterns wanted, Patterns::compile("function", {request.pattern}));
  const FunctionNames names(program, target.load_bias, target.frames,
                            target.abi.end_lines ? LocationFormat::kLines : LocationFormat::kLine);
  // Also matches the pattern against the name without inner modules.
  const auto name_of = [&](const ElfFunction& function) -> std::optional<std::string> {
    std::string name = names.of(function);
    const bool chosen = wanted.any_in(name) || wanted.any_in(demangle(function.name));
    return chosen ? std::optional(std::move(name)) : std::nullopt;
  };
  ASSIGN_OR_RETURN(FunctionList list,
                   list_functions(program, {.name_of = name_of, .most = MEMPROF_CALL_FUNCTIONS}));
  if (list.matching > MEMPROF_CALL_FUNCTIONS) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} functions match '{}', and {} is the limit: name fewer, such as those of one module",
        list.matching, request.pattern, MEMPROF_CALL_FUNCTIONS));
  }
  if (list.matching == 0) {
    return absl::NotFoundError(
        fmt::format("no OCaml function of {} matches '{}'; names are like Server.Sessions.find, as "
                    "`memprofctl sites` shows them",
                    program.display_name(), request.pattern));
  }
  return list;
}

// Maximum number of probes of a trace: one entry and nine exits per function, for the maximum
// number of functions.
constexpr std::size_t kMaxProbes = 20'000;

// The chosen functions and the sites of their probes.
struct ProbePlan {
  std::vector<FunctionCalls> functions;
  ProbeSites sites;
  std::uint64_t costly = 0;
};

class ProbeFinder {
 public:
  ProbeFinder(const ElfFile& program, const SharedFd& file, bool with_time)
      : program_(program), with_time_(with_time) {
    plan_.sites.file = file;
  }

  void add(const ListedFunction& function) {
    const FunctionCode& code = function.code;
    const bool is_timed = with_time_ && code.why_untimed.empty();
    if (code.why_uncounted.empty()) add_probes(function, is_timed);
    plan_.functions.push_back({.name = function.name,
                               .address = function.address,
                               .why_uncounted = code.why_uncounted,
                               .why_untimed = code.why_untimed,
                               .times = {}});
  }
  ProbePlan take() { return std::move(plan_); }

 private:
  void add_probes(const ListedFunction& function, bool is_timed) {
    const FunctionCode& code = function.code;
    const FunctionEntry& entry = is_timed ? code.timed_entry : code.entry;
    if (!entry.is_cheap) ++plan_.costly;
    add_probe(function.address + entry.at, is_timed ? MEMPROF_CALL_BEGIN : MEMPROF_CALL_ENTRY,
              entry);
    if (!is_timed) return;
    for (const FunctionExit& exit : code.exits) {
      add_probe(function.address + exit.at,
                exit.is_tail_call ? MEMPROF_CALL_TAIL : MEMPROF_CALL_RETURN, {});
    }
  }
  // The function is complete in the file, because its code was read from there.
  void add_probe(std::uint64_t address, memprof_call_place place, const FunctionEntry& entry) {
    const auto offset = program_.offset_of(address);
    if (!offset) return;
    plan_.sites.offsets.push_back(*offset);
    plan_.sites.cookies.push_back(
        MEMPROF_CALL_COOKIE(plan_.functions.size(), place, entry.stack_words, entry.young_words));
  }

  const ElfFile& program_;
  const bool with_time_;
  ProbePlan plan_;
};

absl::Status check_times(const RuntimeAbi& abi) {
  const absl::Status known = check_capability(abi, Capability::kCallTimes);
  if (known.ok()) return known;
  return absl::FailedPreconditionError(
      fmt::format("{}; count the calls, without --time", std::string(known.message())));
}

// Location of the program's allocation counters; nothing if unknown for its runtime.
std::optional<AllocatedWords> words_of(const Target& target) {
  if (!target.abi.tested.has(Capability::kCallTimes)) return std::nullopt;
  AllocatedWords words{.stats = target.abi.stats, .young_end = target.abi.young_alloc_end};
  if (target.abi.domains) {
    words.not_in_stats = target.abi.allocated_words;
    return words;
  }
  const auto symbol = target.program->find_symbol("caml_allocated_words");
  if (!symbol) return std::nullopt;
  words.not_in_stats_here = target.load_bias + symbol->address;
  return words;
}

}  // namespace

CallTrace::CallTrace(Target target, std::vector<FunctionCalls> functions,
                     const CallsRequest& request)
    : target_(std::move(target)),
      functions_(std::move(functions)),
      max_hits_(request.max_hits == 0 ? kUsualMaxCallHits : request.max_hits),
      with_time_(request.with_time) {}

absl::StatusOr<std::unique_ptr<CallTrace>> CallTrace::start(Target target,
                                                            const CallsRequest& request) {
  RETURN_IF_ERROR(check_capability(target.abi, Capability::kCalls));
  if (request.with_time) RETURN_IF_ERROR(check_times(target.abi));
  ASSIGN_OR_RETURN(const FunctionList list, choose(target, request));
  ProbeFinder finder(*target.program, target.program_file, request.with_time);
  for (const ListedFunction& function : list.functions) finder.add(function);
  ProbePlan plan = finder.take();
  if (plan.sites.offsets.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("calls of {} cannot be counted: {}; name other functions",
                    plan.functions[0].name, plan.functions[0].why_uncounted));
  }
  if (plan.sites.offsets.size() > kMaxProbes) {
    return absl::ResourceExhaustedError(
        fmt::format("these functions take {} probes, and {} is the limit: name fewer",
                    plan.sites.offsets.size(), kMaxProbes));
  }
  std::unique_ptr<CallTrace> trace(
      new CallTrace(std::move(target), std::move(plan.functions), request));
  trace->costly_ = plan.costly;
  RETURN_IF_ERROR(trace->attach(plan.sites));
  return trace;
}

absl::Status CallTrace::attach(const ProbeSites& sites) {
  ASSIGN_OR_RETURN(probes_, CallProbes::attach({.pid = target_.pid,
                                                .sites = sites,
                                                .max_hits = max_hits_,
                                                .with_time = with_time_,
                                                .fiber_stacks = target_.abi.domains,
                                                .current_stack_offset = target_.abi.current_stack,
                                                .fiber_end_offset = target_.abi.fiber_end,
                                                .fiber_id_offset = target_.abi.fiber_id,
                                                .words = words_of(target_)}));
  // Before the probes were in place, the pid may have been reused or the process may have called
  // exec.
  RETURN_IF_ERROR(check_same_program(target_));
  began_ns_ = monotonic_ns();
  probes_->arm();
  return absl::OkStatus();
}

void CallTrace::check_program_runs(CallsReport& report) {
  const int pid = target_.pid;
  switch (probes_->off()) {
    case MEMPROF_CALLS_OVER_BUDGET:
      report.why_ended = fmt::format(
          "more than {} hits in a second: counting was switched off; select fewer functions, or "
          "raise --max-hits",
          max_hits_);
      return;
    case MEMPROF_CALLS_EXEC:
      report.why_ended = fmt::format("pid {} has replaced itself (exec)", pid);
      return;
    case MEMPROF_CALLS_ON:
      break;
  }
  if (has_exited(target_)) report.why_ended = fmt::format("pid {} has ended", pid);
}

void CallTrace::read_counts(CallsReport& report) const {
  report.functions = functions_;
  for (std::uint32_t i = 0; i < functions_.size(); ++i) {
    const memprof_call_counts counts = probes_->counts(i);
    report.functions[i].calls = counts.calls;
    if (with_time_) report.functions[i].times = call_times(counts);
  }
  report.hits = probes_->hits();
  report.costly = costly_;
  report.with_time = with_time_;
}

CallsReport CallTrace::report() {
  if (!last_.why_ended.empty()) return last_;
  CallsReport report;
  check_program_runs(report);
  if (!report.why_ended.empty()) probes_->remove();
  const std::uint64_t until =
      probes_->off() == MEMPROF_CALLS_ON ? monotonic_ns() : probes_->off_ns();
  report.seconds = static_cast<double>(until - std::min(until, began_ns_)) / 1e9;
  read_counts(report);
  if (!report.why_ended.empty()) last_ = report;
  return report;
}

}  // namespace memprofd
