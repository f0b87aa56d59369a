// SPDX-License-Identifier: Apache-2.0
// The methods of gRPC's services, and their routes over HTTP. Those of Heaps are in
// export/heaps/heap_methods.h. Services must outlive the methods.
#pragma once

#include "absl/strings/str_cat.h"
#include "daemon/export/api/calls_service.h"
#include "daemon/export/api/method.h"
#include "daemon/export/api/rss_convert.h"
#include "daemon/export/api/values_service.h"
#include "daemon/util/utf8.h"
#include "memprof/v1/calls.pb.h"
#include "memprof/v1/rss.pb.h"
#include "memprof/v1/values.pb.h"

namespace memprofd {

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

}  // namespace memprofd
