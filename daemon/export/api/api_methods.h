// SPDX-License-Identifier: Apache-2.0
// The methods of gRPC's services, and their routes over HTTP. Those of Heaps are in
// export/heaps/heap_methods.h. Services must outlive the methods.
#pragma once

#include "daemon/export/api/calls_service.h"
#include "daemon/export/api/method.h"
#include "daemon/export/api/rss_convert.h"
#include "memprof/v1/calls.pb.h"
#include "memprof/v1/rss.pb.h"

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

}  // namespace memprofd
