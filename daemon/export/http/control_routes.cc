// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/control_routes.h"

#include <google/protobuf/util/json_util.h>

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/heap_service.h"
#include "daemon/export/api/heap_why.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/export/http/request_params.h"
#include "daemon/export/http/same_site.h"
#include "daemon/export/http/snapshot_stream.h"

namespace memprofd {
namespace {

constexpr char kOff[] =
    "control over HTTP is off: start memprofd with --web.enable-control, or use memprofctl";

bool is_json(const std::string& content_type) {
  const std::string type = content_type.substr(0, content_type.find(';'));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(type), "application/json");
}

absl::Status check_command(const HttpRequest& request) {
  if (!is_json(header(request, "content-type"))) {
    return absl::InvalidArgumentError("Content-Type must be application/json");
  }
  return check_same_site(request);
}

absl::Status check_controller(const HttpRequest& request) {
  if (request.may_control) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      request.caller, " may only ask: name the user or the certificate with --web.controllers"));
}

// What each of them asks before anything else.
HttpHandler guarded(HttpHandler handler) {
  return [handler = std::move(handler)](const HttpRequest& http) {
    if (absl::Status status = check_command(http); !status.ok()) return http_failure(status);
    const absl::Status allowed = check_controller(http);
    if (allowed.ok()) return handler(http);
    audit(0, http.path, http.caller, allowed);
    return http_failure(allowed);
  };
}

template <typename Request>
absl::StatusOr<Request> parse(const std::string& body) {
  Request request;
  const auto status = google::protobuf::util::JsonStringToMessage(body, &request);
  if (status.ok()) return request;
  const std::string lines(status.message());  // the others show the place
  return absl::InvalidArgumentError(absl::StrCat("the body is no JSON of ",
                                                 Request::descriptor()->name(), ": ",
                                                 lines.substr(0, lines.find('\n'))));
}

template <typename Request, typename Response>
HttpHandler command(ControlService& control,
                    absl::StatusOr<Response> (ControlService::*run)(const Request&)) {
  return [&control, run](const HttpRequest& http) {
    const absl::StatusOr<Request> request = parse<Request>(http.body);
    if (!request.ok()) return http_failure(request.status());
    auto response = (control.*run)(*request);
    audit(request->pid(), name_of(*request), http.caller, response.status());
    return http_answer(std::move(response));
  };
}

HttpHandler snapshot(ControlService& control, StopSignal& stop) {
  return [&control, &stop](const HttpRequest& http) {
    const auto request = parse<::memprof::v1::TakeSnapshotRequest>(http.body);
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
    const auto request = parse<::memprof::v1::AskWhyRequest>(http.body);
    if (!request.ok()) return http_failure(request.status());
    absl::StatusOr<std::string> answer = answers->answer(*request);
    audit(request->pid(), "snapshot for why", http.caller, answer.status());
    if (!answer.ok()) return http_failure(answer.status());
    return HttpResponse{200, "application/json", *std::move(answer)};
  };
}

HttpHandler heap(const ControlParts& parts) {
  return [parts](const HttpRequest& http) {
    const auto request = parse<::memprof::v1::DescribeHeapRequest>(http.body);
    if (!request.ok()) return http_failure(request.status());
    const auto answer = describe_heap(parts.heaps, parts.control, *request,
                                      [&parts] { return parts.stop.wait({}); });
    audit(request->pid(), "snapshot to describe", http.caller, answer.status());
    return http_answer(answer);
  };
}

HttpHandler keep(const ControlParts& parts) {
  return [parts](const HttpRequest& http) {
    const auto request = parse<::memprof::v1::KeepHeapRequest>(http.body);
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
    const auto request = parse<Request>(http.body);
    return request.ok() ? http_answer((kept.*ask)(*request)) : http_failure(request.status());
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
  const HttpHandler off = [](const HttpRequest&) {
    return http_failure(absl::PermissionDeniedError(kOff));
  };
  const auto add = [&](const char* name, HttpHandler handler) {
    routes[absl::StrCat("POST /api/v1/", name)] = allowed ? guarded(std::move(handler)) : off;
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
  routes["/api/v1/heaps"] =
      question<::memprof::v1::ListHeapsRequest>([&kept = parts.kept](const auto& request) {
        return absl::StatusOr<::memprof::v1::ListHeapsResponse>(kept.list(request));
      });
  routes["/api/v1/censuses"] = question<::memprof::v1::ListCensusesRequest>(
      [&kept = parts.kept](const auto& request) { return kept.censuses(request); });
}

}  // namespace memprofd
