// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/control_routes.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/heap_why.h"
#include "daemon/export/api/request_checks.h"
#include "daemon/export/api/rss_convert.h"
#include "daemon/export/heaps/heap_service.h"
#include "daemon/export/http/commands.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/export/http/request_params.h"
#include "daemon/export/http/snapshot_stream.h"

namespace memprofd {
namespace {

template <typename Request, typename Response>
HttpHandler command(ControlService& control,
                    absl::StatusOr<Response> (ControlService::*run)(const Request&,
                                                                    const AskedProcess&)) {
  return [&control, run](const HttpRequest& http) {
    const absl::StatusOr<Request> request = parse_command<Request>(http.body);
    if (!request.ok()) return http_failure(request.status());
    auto response = (control.*run)(*request, process_of(*request));
    audit(request->pid(), name_of(*request), http.caller, response.status());
    return http_answer(std::move(response));
  };
}

HttpHandler snapshot(ControlService& control, StopSignal& stop) {
  return [&control, &stop](const HttpRequest& http) {
    const auto request = parse_command<::memprof::v1::TakeSnapshotRequest>(http.body);
    if (!request.ok()) return http_failure(request.status());
    const auto stream = SnapshotStream::begin(
        control, stop, *request,
        [pid = request->pid(), caller = http.caller](const SnapshotStream::Summary& summary) {
          audit(pid, "snapshot", caller, summary.status(), summary.ok() ? cost_of(*summary) : "");
        });
    if (!stream.ok()) return http_failure(stream.status());
    HttpResponse response{200, "application/octet-stream"};
    response.file_name = absl::StrCat("memprofd-", request->pid(), ".heap");
    response.pieces = [stream = *stream] { return stream->next(); };
    return response;
  };
}

HttpHandler why(const ControlParts& parts) {
  const auto answers =
      std::make_shared<HeapWhy>(parts.heaps, parts.control, parts.queries, parts.stop);
  return [answers](const HttpRequest& http) {
    const auto request = parse_command<::memprof::v1::AskWhyRequest>(http.body);
    if (!request.ok()) return http_failure(request.status());
    absl::StatusOr<std::string> answer = answers->answer(*request);
    audit(request->pid(), "snapshot for why", http.caller, answer.status());
    if (!answer.ok()) return http_failure(answer.status());
    return HttpResponse{200, "application/json", *std::move(answer)};
  };
}

HttpHandler heap(const ControlParts& parts) {
  return [parts](const HttpRequest& http) {
    const auto request = parse_command<::memprof::v1::DescribeHeapRequest>(http.body);
    if (!request.ok()) return http_failure(request.status());
    const auto answer = describe_heap(parts.heaps, parts.control, *request, request->pid(),
                                      [&parts] { return parts.stop.wait({}); });
    audit(request->pid(), "snapshot to describe", http.caller, answer.status());
    return http_answer(answer);
  };
}

HttpHandler keep(const ControlParts& parts) {
  return [parts](const HttpRequest& http) {
    const auto request = parse_command<::memprof::v1::KeepHeapRequest>(http.body);
    if (!request.ok()) return http_failure(request.status());
    const auto answer = parts.kept.keep(*request, [&parts] { return parts.stop.wait({}); });
    audit(request->pid(), "snapshot to keep", http.caller, answer.status());
    return http_answer(answer);
  };
}

// They are about files alone: no program notices.
template <typename Request, typename Response>
HttpHandler of_kept(KeptHeaps& kept, absl::StatusOr<Response> (KeptHeaps::*ask)(const Request&)) {
  return [&kept, ask](const HttpRequest& http) {
    const auto request = parse_command<Request>(http.body);
    return request.ok() ? http_answer((kept.*ask)(*request)) : http_failure(request.status());
  };
}

// The program does not notice, but pages of all programs may be looked at.
HttpHandler rss(ProfilerService& service) {
  return [&service](const HttpRequest& http) {
    const auto request = parse_command<::memprof::v1::GetRssRequest>(http.body);
    return request.ok() ? http_answer(get_rss(service, *request, request->pid()))
                        : http_failure(request.status());
  };
}

// A question by parameters, which reads no heap and touches no program.
template <typename Request, typename Ask>
HttpHandler question(Ask ask) {
  return [ask](const HttpRequest& http) {
    Request request;
    const absl::Status status = fill_from_params(http.query, request);
    return status.ok() ? http_answer(ask(request)) : http_failure(status);
  };
}

}  // namespace

void add_control_routes(const ControlParts& parts, bool allowed, HttpRoutes& routes) {
  ControlService& control = parts.control;
  const auto add = [&](const char* name, HttpHandler handler) {
    add_command(name, allowed, std::move(handler), routes);
  };
  add("attach", command(control, &ControlService::attach));
  add("detach", command(control, &ControlService::detach));
  add("rate", command(control, &ControlService::set_rate));
  add("snapshot", snapshot(control, parts.stop));
  add("heap", heap(parts));
  add("why", why(parts));
  add("keep_heap", keep(parts));
  add("compare_heaps", of_kept(parts.kept, &KeptHeaps::compare));
  add("find_waste", of_kept(parts.kept, &KeptHeaps::find_waste));
  add("find_garbage", of_kept(parts.kept, &KeptHeaps::find_garbage));
  add("rss", rss(parts.service));
  routes["/api/v1/heaps"] =
      question<::memprof::v1::ListHeapsRequest>([&kept = parts.kept](const auto& request) {
        return absl::StatusOr<::memprof::v1::ListHeapsResponse>(kept.list(request));
      });
  routes["/api/v1/censuses"] = question<::memprof::v1::ListCensusesRequest>(
      [&kept = parts.kept](const auto& request) { return kept.censuses(request); });
}

}  // namespace memprofd
