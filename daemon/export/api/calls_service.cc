// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/calls_service.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "daemon/calls/call_trace.h"
#include "daemon/export/api/request_checks.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using std::chrono::steady_clock;

// Time within which a lost client or an exhausted budget is noticed.
constexpr std::chrono::milliseconds kCheck{50};

absl::StatusOr<std::chrono::nanoseconds> interval_of(double seconds) {
  constexpr double kShortest = 0.1, kLongest = 3600;
  if (seconds == 0) return std::chrono::seconds(1);
  if (seconds >= kShortest && seconds <= kLongest) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("bad interval of ", seconds, " s: it is ", kShortest, " to ", kLongest, " s"));
}

void set_duration(const NumberRange& range, pb::CallDuration& out) {
  constexpr double kNs = 1e9;
  constexpr auto kNone = std::numeric_limits<std::uint64_t>::max();
  out.set_low_seconds(static_cast<double>(range.low) / kNs);
  out.set_high_seconds(range.high == kNone ? std::numeric_limits<double>::infinity()
                                           : static_cast<double>(range.high) / kNs);
}

void set_words(const NumberRange& range, pb::CallWords& out) {
  out.set_low(range.low);
  out.set_high(range.high);
}

pb::CallTimes to_proto(const CallTimes& times) {
  pb::CallTimes out;
  out.set_returned(times.returned);
  out.set_tail_calls(times.tail_calls);
  out.set_raised(times.raised);
  out.set_running(times.running);
  out.set_lost(times.lost);
  out.set_unmatched(times.unmatched);
  out.set_seconds(times.seconds);
  out.set_words(times.words);
  out.set_unsized(times.unsized);
  if (times.ns.p50.high > 0) {
    set_duration(times.ns.p50, *out.mutable_p50());
    set_duration(times.ns.p90, *out.mutable_p90());
    set_duration(times.ns.p99, *out.mutable_p99());
  }
  if (times.words_each.p50.high > 0) {
    set_words(times.words_each.p50, *out.mutable_words_p50());
    set_words(times.words_each.p90, *out.mutable_words_p90());
    set_words(times.words_each.p99, *out.mutable_words_p99());
  }
  return out;
}

bool is_timed(const CallsReport& report, const FunctionCalls& function) {
  return report.with_time && function.why_uncounted.empty() && function.why_untimed.empty();
}

}  // namespace

pb::TraceCallsResponse to_proto(const CallsReport& report, int pid) {
  pb::TraceCallsResponse out;
  out.set_pid(pid);
  for (const FunctionCalls& one : report.functions) {
    pb::FunctionCalls& to = *out.add_functions();
    to.set_function(valid_utf8(one.name));
    to.set_address(one.address);
    to.set_calls(one.calls);
    to.set_why_uncounted(one.why_uncounted);
    if (is_timed(report, one)) *to.mutable_times() = to_proto(one.times);
    if (report.with_time) to.set_why_untimed(one.why_untimed);
  }
  auto& functions = *out.mutable_functions();
  std::stable_sort(functions.begin(), functions.end(),
                   [](const auto& a, const auto& b) { return a.calls() > b.calls(); });
  out.set_seconds(report.seconds);
  out.set_hits(report.hits);
  out.set_with_time(report.with_time);
  out.set_costly_functions(report.costly);
  out.set_why_ended(valid_utf8(report.why_ended));
  return out;
}

std::string name_of(const pb::TraceCallsRequest& request) {
  return absl::StrCat("trace calls of '", printable(request.pattern()), "'");
}

absl::Status trace_calls(ProfilerService& service, const pb::TraceCallsRequest& request,
                         const StreamCall<pb::TraceCallsResponse>& call) {
  RETURN_IF_ERROR(check_pid(call.process.pid));
  ASSIGN_OR_RETURN(const auto interval, interval_of(request.interval_seconds()));
  const double duration = request.duration_seconds();
  if (!(duration >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad duration of ", duration, " s: it is 0 or more"));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<CallTrace> trace,
                   service.trace_calls(call.process, {.pattern = request.pattern(),
                                                      .max_hits = request.max_hits_per_second(),
                                                      .with_time = request.with_time()}));
  call.done("");
  auto due = steady_clock::now() + interval;
  while (call.wait(steady_clock::now() + std::min<std::chrono::nanoseconds>(kCheck, interval))) {
    pb::TraceCallsResponse message = to_proto(trace->report(), call.process.pid);
    const bool is_over = duration > 0 && message.seconds() >= duration;
    if (is_over && message.why_ended().empty()) message.set_why_ended("the duration has elapsed");
    const bool ended = !message.why_ended().empty();
    if (!ended && steady_clock::now() < due) continue;
    due += interval;
    if (!call.send(message) || ended) break;
  }
  return absl::OkStatus();
}

}  // namespace memprofd
