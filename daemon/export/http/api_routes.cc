// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/api_routes.h"

#include <memory>
#include <semaphore>
#include <string>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/api/api_methods.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/vocabulary.h"
#include "daemon/export/http/commands.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/export/http/request_params.h"
#include "daemon/export/http/same_site.h"
#include "daemon/model/target_info.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using Params = std::multimap<std::string, std::string>;

constexpr double kLongestWait = 600;  // seconds
// Maximum number of profiles over a time that are awaited at once; each uses one of the 128
// connections.
constexpr int kWaits = 32;

// State that the routes share.
struct Shared {
  QueryService& queries;
  StopSignal& stop;
  std::shared_ptr<HttpTurns> turns = std::make_shared<HttpTurns>();
  std::counting_semaphore<kWaits> waits{kWaits};
};
using SharedPtr = std::shared_ptr<Shared>;

absl::StatusOr<pb::GetProfileResponse> make_profile(Shared& shared,
                                                    const pb::GetProfileRequest& request,
                                                    const ScrapeOptions& options = {}) {
  const auto turn = shared.turns->answers.take();
  if (!turn.ok()) return turn.status();
  return shared.queries.get_profile(request, options);
}

HttpResponse profile_response(absl::StatusOr<pb::GetProfileResponse> answer) {
  if (!answer.ok()) return http_failure(answer.status());
  HttpResponse response{200, answer->content_type(), std::move(*answer->mutable_data())};
  response.file_name = answer->file_name();
  return response;
}

// Removes and returns a parameter, the first of several; empty if there is none.
std::string take(Params& params, const std::string& name) {
  const auto found = params.find(name);
  if (found == params.end()) return "";
  return std::move(params.extract(found).mapped());
}

absl::StatusOr<double> parse_seconds(const std::string& text) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && seconds > 0 && seconds <= kLongestWait) return seconds;
  return absl::InvalidArgumentError(
      absl::StrCat("bad value \"", text, "\" of parameter seconds: above 0, at most 600"));
}

// Sets the request's range from now on and waits for this number of seconds. Invalid requests are
// refused before the wait.
absl::Status wait_for_delta(const std::string& text, Shared& shared, pb::GetProfileRequest& request,
                            ScrapeOptions& options) {
  ASSIGN_OR_RETURN(const double seconds, parse_seconds(text));
  options.system_clock = true;
  request.mutable_range()->set_begin_unix_ns(static_cast<std::int64_t>(realtime_ns()));
  if (!shared.waits.try_acquire()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        kWaits, " clients wait for profiles over a time, and that is the limit: ask again later"));
  }
  const absl::Cleanup leave = [&] { shared.waits.release(); };
  RETURN_IF_ERROR(make_profile(shared, request, options).status());
  shared.queries.mark_moment();
  request.mutable_range()->set_begin_unix_ns(static_cast<std::int64_t>(realtime_ns()));
  if (!shared.stop.wait(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)))) {
    return absl::UnavailableError("memprofd stops");
  }
  return absl::OkStatus();
}

bool has_begin(const pb::TimeRange& range) {
  return range.begin_unix_ns() != 0 || range.last_seconds() > 0;
}

// Answer of a path under /debug/pprof/.
struct PprofPath {
  pb::Measure first;  // value that tools show first
  bool is_delta;      // never since the attach; in use is all live memory
};

absl::StatusOr<pb::GetProfileResponse> pprof_profile(Params params, const PprofPath& path,
                                                     Shared& shared) {
  take(params, "debug");  // of Go's own endpoint: text is not made
  take(params, "gc");
  const std::string seconds = take(params, "seconds");
  while (auto pid = params.extract("pid")) {
    pid.key() = "pids";
    params.insert(std::move(pid));
  }
  ScrapeOptions options{.within_limits = true};
  for (const std::string_view label : kTargetLabels) {
    while (auto value = params.extract(std::string(label))) options.labels.insert(std::move(value));
  }
  pb::GetProfileRequest request;
  request.set_measure(path.first);
  RETURN_IF_ERROR(fill_from_params(params, request));
  if (!seconds.empty()) {
    if (!path.is_delta) request.mutable_filter()->set_allocated_in_range(true);
    RETURN_IF_ERROR(wait_for_delta(seconds, shared, request, options));
  } else if (path.is_delta && !has_begin(request.range())) {
    return absl::InvalidArgumentError(
        "missing parameter seconds, the duration to profile from now on; or give last_seconds for "
        "the past");
  }
  return make_profile(shared, request, options);
}

// Waits for the next packets of the trace and returns them; empty at its end.
std::string next_packets(TraceStream& stream) {
  std::string out;
  const auto append = [&](const pb::RecordResponse& message) {
    out += message.data();
    return true;
  };
  while (stream.step(append) && out.empty()) {
  }
  return out;
}

absl::StatusOr<HttpResponse> trace(const HttpRequest& http, TraceService& traces) {
  Params params = http.query;
  ASSIGN_OR_RETURN(const double seconds, parse_seconds(take(params, "seconds")));
  pb::TraceOptions options;
  RETURN_IF_ERROR(fill_from_params(params, options));
  options.set_max_seconds(seconds);
  auto begun = traces.record(options);
  audit(options.pid(), "record", http.caller, begun.status());
  RETURN_IF_ERROR(begun.status());
  const std::shared_ptr<TraceStream> stream = *std::move(begun);
  HttpResponse response{200, "application/octet-stream"};
  response.file_name = absl::StrCat("memprofd-", options.pid(), ".ctf");
  response.pieces = [stream] { return next_packets(*stream); };
  return response;
}

HttpHandler pprof(const SharedPtr& shared, const PprofPath& path) {
  return [shared, path](const HttpRequest& http) {
    return profile_response(pprof_profile(http.query, path, *shared));
  };
}

}  // namespace

void add_api_routes(QueryService& queries, TraceService& traces, StopSignal& stop,
                    HttpRoutes& routes) {
  const auto shared = std::make_shared<Shared>(queries, stop);
  routes["/debug/pprof/heap"] = pprof(shared, {pb::MEASURE_LIVE, false});
  routes["/debug/pprof/allocs"] = pprof(shared, {pb::MEASURE_ALLOCATED, false});
  routes["/debug/pprof/delta_heap"] = pprof(shared, {pb::MEASURE_ALLOCATED, true});
  each_query_method(queries, MethodRoutes(routes, false, stop, shared->turns));
  routes["/api/v1/vocabulary"] = [](const HttpRequest&) { return http_json(vocabulary()); };
  routes["POST /api/v1/trace"] = [&traces](const HttpRequest& http) {
    if (absl::Status status = check_same_site(http); !status.ok()) return http_failure(status);
    absl::StatusOr<HttpResponse> response = trace(http, traces);
    return response.ok() ? *std::move(response) : http_failure(response.status());
  };
  routes["/api/v1/profile"] = [shared](const HttpRequest& http) {
    pb::GetProfileRequest request;
    const absl::Status status = fill_from_params(http.query, request);
    return status.ok() ? profile_response(make_profile(*shared, request)) : http_failure(status);
  };
}

}  // namespace memprofd
