// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/http/control_routes.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/api_methods.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/heaps/heap_methods.h"
#include "daemon/export/http/commands.h"
#include "daemon/export/http/http_answers.h"
#include "daemon/export/http/snapshot_stream.h"

namespace memprofd {
namespace {

HttpHandler snapshot(ControlService& control, StopSignal& stop) {
  return [&control, &stop](const HttpRequest& http) {
    const auto request = parse_command<::memprof::v1::TakeSnapshotRequest>(http.body);
    if (!request.ok()) return http_failure(request.status());
    const auto stream = HeapDumpStream::begin(
        control, stop, *request,
        [pid = request->pid(), caller = http.caller](const HeapDumpStream::Summary& summary) {
          audit(pid, "snapshot", caller, summary.status(), summary.ok() ? cost_of(*summary) : "");
        });
    if (!stream.ok()) return http_failure(stream.status());
    HttpResponse response{200, "application/octet-stream"};
    response.file_name = absl::StrCat("memprofd-", request->pid(), ".heap");
    response.pieces = [stream = *stream] { return stream->next(); };
    return response;
  };
}

}  // namespace

void add_control_routes(const ControlParts& parts, bool allowed, HttpRoutes& routes) {
  ControlService& control = parts.control;
  add_command("snapshot", allowed, snapshot(control, parts.stop), routes);
  const MethodRoutes visit(routes, allowed, parts.stop, std::make_shared<HttpTurns>());
  each_control_method(parts.service, control, visit);
  each_values_method(parts.service, parts.values, visit);
  each_memory_method(parts.service, visit);
  each_heap_method(control, parts.taken, parts.kept, visit);
}

}  // namespace memprofd
