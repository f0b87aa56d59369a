// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/control_routes.h"

#include <google/protobuf/util/json_util.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/heap_service.h"
#include "daemon/export/api/heap_why.h"
#include "daemon/export/api/rss_convert.h"
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
    if (absl::Status status = check_command(http); !status.ok()) return http_failure(status);
    const absl::StatusOr<Request> request = parse<Request>(http.body);
    if (!request.ok()) return http_failure(request.status());
    auto response = (control.*run)(*request);
    audit(request->pid(), name_of(*request), http.caller, response.status());
    return http_answer(std::move(response));
  };
}

HttpHandler snapshot(ControlService& control, StopSignal& stop) {
  return [&control, &stop](const HttpRequest& http) {
    if (absl::Status status = check_command(http); !status.ok()) return http_failure(status);
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
    if (absl::Status status = check_command(http); !status.ok()) return http_failure(status);
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
    if (absl::Status status = check_command(http); !status.ok()) return http_failure(status);
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
    if (absl::Status status = check_command(http); !status.ok()) return http_failure(status);
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
    if (absl::Status status = check_command(http); !status.ok()) return http_failure(status);
    const auto request = parse<Request>(http.body);
    return request.ok() ? http_answer((kept.*ask)(*request)) : http_failure(request.status());
  };
}

// The program does not notice, but pages of all programs may be looked at.
HttpHandler rss(ProfilerService& service) {
  return [&service](const HttpRequest& http) {
    if (absl::Status status = check_command(http); !status.ok()) return http_failure(status);
    const auto request = parse<::memprof::v1::GetRssRequest>(http.body);
    return request.ok() ? http_answer(get_rss(service, *request)) : http_failure(request.status());
  };
}

HttpHandler list(const KeptHeaps& kept) {
  return [&kept](const HttpRequest& http) {
    ::memprof::v1::ListHeapsRequest request;
    const absl::Status status = fill_from_params(http.query, request);
    return status.ok() ? http_json(kept.list(request)) : http_failure(status);
  };
}

}  // namespace

void add_control_routes(const ControlParts& parts, bool allowed, HttpRoutes& routes) {
  ControlService& control = parts.control;
  const HttpHandler off = [](const HttpRequest&) {
    return http_failure(absl::PermissionDeniedError(kOff));
  };
  routes["POST /api/v1/attach"] = allowed ? command(control, &ControlService::attach) : off;
  routes["POST /api/v1/detach"] = allowed ? command(control, &ControlService::detach) : off;
  routes["POST /api/v1/snapshot"] = allowed ? snapshot(control, parts.stop) : off;
  routes["POST /api/v1/heap"] = allowed ? heap(parts) : off;
  routes["POST /api/v1/why"] = allowed ? why(parts) : off;
  routes["POST /api/v1/keep_heap"] = allowed ? keep(parts) : off;
  routes["POST /api/v1/compare_heaps"] = allowed ? of_kept(parts.kept, &KeptHeaps::compare) : off;
  routes["POST /api/v1/find_waste"] = allowed ? of_kept(parts.kept, &KeptHeaps::find_waste) : off;
  routes["POST /api/v1/rss"] = allowed ? rss(parts.service) : off;
  routes["/api/v1/heaps"] = list(parts.kept);
  routes["POST /api/v1/rate"] = allowed ? command(control, &ControlService::set_rate) : off;
}

}  // namespace memprofd
