// SPDX-License-Identifier: Apache-2.0
#include "daemon/calls/call_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "daemon/discover/function_list.h"
#include "daemon/query/frame_filter.h"
#include "daemon/symbolize/symbol_names.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

absl::StatusOr<FunctionList> choose(ElfFile& program, const CallsRequest& request) {
  if (request.pattern.empty()) {
    return absl::InvalidArgumentError(
        "which functions? name them by a pattern, such as 'Order_parser\\.*'");
  }
  ASSIGN_OR_RETURN(const Patterns wanted, Patterns::compile("function", {request.pattern}));
  ASSIGN_OR_RETURN(
      FunctionList list,
      list_functions(program, {.name_of = demangle,
                               .wanted = [&](const std::string& n) { return wanted.any_in(n); },
                               .most = MEMPROF_CALL_FUNCTIONS}));
  if (list.matching > MEMPROF_CALL_FUNCTIONS) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} functions match '{}', and {} is the limit: name fewer, such as those of one module",
        list.matching, request.pattern, MEMPROF_CALL_FUNCTIONS));
  }
  if (list.matching == 0) {
    return absl::NotFoundError(
        fmt::format("no OCaml function of {} matches '{}'; names are like Server.handle, as "
                    "`memprofctl report` shows them",
                    program.display_name(), request.pattern));
  }
  return list;
}

// Adds the place of a function that can be counted.
void add_place(const ElfFile& program, const ListedFunction& function, std::uint32_t index,
               ProbeSites& sites) {
  if (!function.code.why_uncounted.empty()) return;
  const auto offset = program.offset_of(function.address + function.code.entry);
  if (!offset) return;
  sites.offsets.push_back(*offset);
  sites.cookies.push_back(MEMPROF_CALL_COOKIE(index));
}

}  // namespace

CallTrace::CallTrace(Target target, std::vector<FunctionCalls> functions, std::uint64_t max_hits)
    : target_(std::move(target)), functions_(std::move(functions)), max_hits_(max_hits) {}

absl::StatusOr<std::unique_ptr<CallTrace>> CallTrace::start(Target target,
                                                            const CallsRequest& request) {
  ASSIGN_OR_RETURN(const FunctionList list, choose(*target.program, request));
  ProbeSites sites{.file = target.program_file, .offsets = {}, .cookies = {}};
  std::vector<FunctionCalls> functions;
  std::uint64_t costly = 0;
  for (const ListedFunction& function : list.functions) {
    add_place(*target.program, function, static_cast<std::uint32_t>(functions.size()), sites);
    if (function.code.why_uncounted.empty() && !function.code.is_cheap) ++costly;
    functions.push_back({.name = function.name,
                         .address = function.address,
                         .why_uncounted = function.code.why_uncounted});
  }
  if (sites.offsets.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("calls of {} cannot be counted: {}; name other functions", functions[0].name,
                    functions[0].why_uncounted));
  }
  const std::uint64_t max_hits = request.max_hits == 0 ? kUsualMaxCallHits : request.max_hits;
  std::unique_ptr<CallTrace> trace(
      new CallTrace(std::move(target), std::move(functions), max_hits));
  trace->costly_ = costly;
  RETURN_IF_ERROR(trace->attach(sites));
  return trace;
}

absl::Status CallTrace::attach(const ProbeSites& sites) {
  ASSIGN_OR_RETURN(
      probes_, CallProbes::attach({.pid = target_.pid, .entries = sites, .max_hits = max_hits_}));
  // The pid may have become another process's, or another program's, until the probes were in.
  RETURN_IF_ERROR(check_same_program(target_));
  began_ns_ = monotonic_ns();
  probes_->arm();
  return absl::OkStatus();
}

void CallTrace::look_whether_it_goes_on(CallsReport& report) {
  const int pid = target_.pid;
  switch (probes_->off()) {
    case MEMPROF_CALLS_OVER_BUDGET:
      report.why_ended = fmt::format(
          "more than {} hits in a second: counting was switched off; name fewer functions, or "
          "grant more with --max-hits",
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
    report.functions[i].calls = probes_->counts(i).calls;
  }
  report.hits = probes_->hits();
  report.costly = costly_;
}

CallsReport CallTrace::report() {
  if (!last_.why_ended.empty()) return last_;
  CallsReport report;
  look_whether_it_goes_on(report);
  if (!report.why_ended.empty()) probes_->remove();
  const std::uint64_t until =
      probes_->off() == MEMPROF_CALLS_ON ? monotonic_ns() : probes_->off_ns();
  report.seconds = static_cast<double>(until - std::min(until, began_ns_)) / 1e9;
  read_counts(report);
  if (!report.why_ended.empty()) last_ = report;
  return report;
}

}  // namespace memprofd
