// SPDX-License-Identifier: Apache-2.0
// The methods of gRPC's services, and their routes over HTTP. Those of Heaps are in
// export/heaps/heap_methods.h. Services must outlive the methods.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/calls_service.h"
#include "daemon/export/api/control_service.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/api/method.h"
#include "daemon/export/api/profile_streams.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/api/rss_convert.h"
#include "daemon/export/api/server_info.h"
#include "daemon/export/api/trace_service.h"
#include "daemon/export/api/values_service.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"
#include "memprof/v1/calls.pb.h"
#include "memprof/v1/profiler.pb.h"
#include "memprof/v1/rss.pb.h"
#include "memprof/v1/values.pb.h"

namespace memprofd {

// Questions of Profiler. The answer to GetProfile is no JSON: HTTP has routes of its own for it.
template <typename Visit>
void each_query_method(QueryService& queries, const Visit& visit) {
  namespace pb = ::memprof::v1;
  visit(Method<pb::ListTargetsRequest, pb::ListTargetsResponse>{
      "ListTargets", "targets", Role::kAsk, Queue::kTargets, nullptr,
      [&queries](const auto& request, const MethodCall& call) {
        return queries.list_targets(request, call.process.user);
      }});
  const auto visit_answer = [&]<typename Request, typename Response>(
                                const char* rpc, const char* route,
                                absl::StatusOr<Response> (QueryService::*ask)(const Request&)) {
    visit(Method<Request, Response>{rpc, route, Role::kAsk, Queue::kAnswers, nullptr,
                                    [&queries, ask](const Request& request, const MethodCall&) {
                                      return (queries.*ask)(request);
                                    }});
  };
  visit_answer("ListSites", "sites", &QueryService::list_sites);
  visit_answer("DiffSites", "diff", &QueryService::diff_sites);
  visit_answer("ListCallers", "callers", &QueryService::list_callers);
  visit_answer("ListLeaks", "leaks", &QueryService::list_leaks);
  visit_answer("GetHistory", "history", &QueryService::get_history);
  visit(Method<pb::GetProfileRequest, pb::GetProfileResponse>{
      "GetProfile", nullptr, Role::kAsk, Queue::kAnswers, nullptr,
      [&queries](const auto& request, const MethodCall&) { return queries.get_profile(request); }});
  visit(StreamMethod<pb::GetProfileRequest, pb::StreamProfileResponse>{
      "StreamProfile", Role::kAsk, Queue::kAnswers, nullptr,
      [&queries](const auto& request, const auto& call) {
        return stream_profile(queries, request, call);
      }});
  visit(StreamMethod<pb::WatchSitesRequest, pb::ListSitesResponse>{
      "WatchSites", Role::kAsk, Queue::kWatched, nullptr,
      [&queries](const auto& request, const auto& call) {
        return watch_sites(queries, request, call);
      }});
}

// The other methods of Profiler. control: of service. Of a snapshot HTTP sends the file alone: it
// has a route of its own for that.
template <typename Visit>
void each_control_method(ProfilerService& service, ControlService& control, const Visit& visit) {
  namespace pb = ::memprof::v1;
  const auto visit_command = [&]<typename Request, typename Response>(
                                 const char* rpc, const char* route,
                                 absl::StatusOr<Response> (ControlService::*run)(
                                     const Request&, const RequestedProcess&)) {
    visit(Method<Request, Response>{
        rpc, route, Role::kControlProgram, Queue::kCalls,
        [](const Request& request) { return AuditLine{name_of(request)}; },
        [&control, run](const Request& request, const MethodCall& call) {
          return (control.*run)(request, call.process);
        }});
  };
  visit_command("Attach", "attach", &ControlService::attach);
  visit_command("Detach", "detach", &ControlService::detach);
  visit_command("SetRate", "rate", &ControlService::set_rate);
  visit(StreamMethod<pb::TakeSnapshotRequest, pb::TakeSnapshotResponse>{
      "TakeSnapshot", Role::kControlProgram, Queue::kNone, logged_as("snapshot"),
      [&control](const auto& request, const auto& call) {
        return take_snapshot(control, request, HeapContents::kNone, call);
      }});
  visit(StreamMethod<pb::StreamEventsRequest, pb::StreamEventsResponse>{
      "StreamEvents", Role::kAsk, Queue::kNone, nullptr,
      [&service](const auto& request, const auto& call) {
        return stream_events(service, request, call);
      }});
  // Findings from /proc about a process are for users who may inspect it; those about the machine
  // are for everyone.
  visit(Method<pb::DiagnoseRequest, pb::DiagnoseResponse>{
      "Diagnose", nullptr, Role::kInspectProgram, Queue::kCalls, nullptr,
      [&service](const auto&, const MethodCall& call) {
        pb::DiagnoseResponse response;
        for (const Finding& finding : service.diagnose(call.process)) {
          *response.add_findings() = to_proto(finding);
        }
        return response;
      }});
}

// facts must outlive the method.
template <typename Visit>
void each_server_method(const ServerFacts& facts, const Visit& visit) {
  namespace pb = ::memprof::v1;
  visit(Method<pb::GetServerInfoRequest, pb::GetServerInfoResponse>{
      "GetServerInfo", nullptr, Role::kAsk, Queue::kNone, nullptr,
      [&facts](const auto&, const MethodCall&) { return server_info(facts); }});
}

template <typename Visit>
void each_memory_method(ProfilerService& service, const Visit& visit) {
  namespace pb = ::memprof::v1;
  // The program, a target or not, is inspected and does not notice.
  visit(Method<pb::GetRssRequest, pb::GetRssResponse>{
      "GetRss", "rss", Role::kInspectProgram, Queue::kCalls, nullptr,
      [&service](const auto& request, const MethodCall& call) {
        return get_rss(service, request, call.process);
      }});
}

template <typename Visit>
void each_calls_method(ProfilerService& service, const Visit& visit) {
  namespace pb = ::memprof::v1;
  visit(StreamMethod<pb::TraceCallsRequest, pb::TraceCallsResponse>{
      "TraceCalls", Role::kControlProgram, Queue::kNone,
      [](const auto& request) { return AuditLine{name_of(request)}; },
      [&service](const auto& request, const auto& call) {
        return trace_calls(service, request, call);
      }});
}

// values: of service.
template <typename Visit>
void each_values_method(ProfilerService& service, ValuesService& values, const Visit& visit) {
  namespace pb = ::memprof::v1;
  // Each access to the contents of a program is logged.
  visit(Method<pb::ListValuesRequest, pb::ListValuesResponse>{
      "ListValues", "values", Role::kControlProgram, Queue::kCalls,
      [](const auto& request) {
        return request.with_contents() ? AuditLine{"contents of values"}
                                       : AuditLine{.words = "values", .only_refusals = true};
      },
      [&values](const auto& request, const MethodCall& call) {
        return values.list_values(request, call.process, call.waits);
      }});
  visit(StreamMethod<pb::WatchValuesRequest, pb::WatchValuesResponse>{
      "WatchValues", Role::kControlProgram, Queue::kNone,
      [](const auto& request) {
        return request.values().with_contents()
                   ? AuditLine{"watch contents of values"}
                   : AuditLine{.words = "watch values", .only_refusals = true};
      },
      [&service](const auto& request, const auto& call) {
        return watch_values(service, request, call);
      }});
  visit(Method<pb::ResumeRequest, pb::ResumeResponse>{
      "Resume", "resume", Role::kControlProgram, Queue::kCalls, logged_as("resume"),
      [&values](const auto& request, const MethodCall& call) {
        return values.resume(request, call.process);
      }});
  visit(Method<pb::AdjustRequest, pb::AdjustResponse>{
      "Adjust", "adjust", Role::kControlProgram, Queue::kCalls,
      [](const auto& request) { return AuditLine{name_of(request)}; },
      [&values](const auto& request, const MethodCall& call) {
        return values.adjust(request, call.process);
      },
      [](const auto& response) { return absl::StrCat("it has ", response.count()); }});
  visit(Method<pb::KeepValuesRequest, pb::KeepValuesResponse>{
      "KeepValues", "keep_values", Role::kControlProgram, Queue::kCalls,
      [](const auto& request) { return AuditLine{name_of(request)}; },
      [&values](const auto& request, const MethodCall& call) {
        return values.keep(request, call.process);
      }});
  visit(Method<pb::AskRequest, pb::AskResponse>{
      "Ask", nullptr, Role::kControlProgram, Queue::kCalls,
      [](const auto& request) {
        return AuditLine{absl::StrCat("ask '", printable(request.name()), "'")};
      },
      [&values](const auto& request, const MethodCall& call) {
        return values.ask(request, call.process, call.waits);
      }});
  // Numbers are those of metrics; lines are for users who may control the program, or could while
  // it ran. A process that has its pid now is irrelevant.
  visit(Method<pb::GetValueHistoryRequest, pb::GetValueHistoryResponse>{
      .rpc = "GetValueHistory",
      .route = nullptr,
      .role = Role::kAsk,
      .queue = Queue::kCalls,
      .audit =
          [](const auto&) { return AuditLine{.words = "lines of its log", .only_refusals = true}; },
      .answer = [&values](
                    const auto& request,
                    const MethodCall& call) { return values.history(request, call.process.user); },
      .role_of =
          [](const auto& request) {
            return request.with_lines() ? Role::kControlOwn : Role::kAsk;
          }});
  // Over HTTP these are two routes, because only one of them is a question.
  visit(Method<pb::GetValueHistoryRequest, pb::GetValueHistoryResponse>{
      nullptr, "value_history", Role::kAsk, Queue::kValues, nullptr,
      [&values](auto request, const MethodCall& /*call*/) {
        request.set_with_lines(false);
        return values.history(request);
      }});
  visit(Method<pb::GetValueHistoryRequest, pb::GetValueHistoryResponse>{
      nullptr, "value_lines", Role::kControlProgram, Queue::kCalls, nullptr,
      [&values](auto request, const MethodCall& /*call*/) {
        request.set_with_lines(true);
        return values.history(request);
      }});
}

template <typename Visit>
void each_trace_method(TraceService& traces, const Visit& visit) {
  namespace pb = ::memprof::v1;
  visit(StreamMethod<pb::RecordRequest, pb::RecordResponse>{
      "Record", Role::kAsk, Queue::kNone, logged_as("record"),
      [&traces](const auto& request, const auto& call) {
        return record_trace(traces, request, call);
      }});
  visit(Method<pb::EndRecordingRequest, pb::EndRecordingResponse>{
      "EndRecording", nullptr, Role::kAsk, Queue::kCalls, nullptr,
      [&traces](const auto& request,
                const MethodCall&) -> absl::StatusOr<pb::EndRecordingResponse> {
        RETURN_IF_ERROR(traces.end_recording(request.recording()));
        return pb::EndRecordingResponse();
      }});
  visit(Method<pb::StartTraceRequest, pb::StartTraceResponse>{
      "StartTrace", nullptr, Role::kControlProgram, Queue::kCalls, logged_as("start a trace"),
      [&traces](const auto& request,
                const MethodCall& call) -> absl::StatusOr<pb::StartTraceResponse> {
        pb::TraceOptions options = request.options();
        options.set_process_start_ticks(call.process.start_time_ticks);
        pb::StartTraceResponse response;
        ASSIGN_OR_RETURN(*response.mutable_trace(), traces.start(options, call.process.user));
        return response;
      }});
  visit(Method<pb::StopTraceRequest, pb::StopTraceResponse>{
      .rpc = "StopTrace",
      .route = nullptr,
      .role = Role::kControlOwn,
      .queue = Queue::kCalls,
      .audit =
          [](const auto& request) { return AuditLine{absl::StrCat("stop trace ", request.id())}; },
      .answer = [&traces](const auto& request,
                          const MethodCall& call) -> absl::StatusOr<pb::StopTraceResponse> {
        pb::StopTraceResponse response;
        ASSIGN_OR_RETURN(*response.mutable_trace(), traces.stop(request.id(), call.process.user));
        return response;
      },
      .process = [&traces](const auto& request) { return traces.pid_of(request.id()); }});
  visit(Method<pb::ListTracesRequest, pb::ListTracesResponse>{
      "ListTraces", nullptr, Role::kAsk, Queue::kCalls, nullptr,
      [&traces](const auto&, const MethodCall&) { return traces.list(); }});
}

}  // namespace memprofd
