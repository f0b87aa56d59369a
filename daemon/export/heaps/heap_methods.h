// SPDX-License-Identifier: Apache-2.0
// The methods of gRPC's Heaps, and their routes over HTTP.
#pragma once

#include "daemon/export/api/method.h"
#include "daemon/export/api/profile_streams.h"
#include "daemon/export/heaps/heap_answers.h"
#include "daemon/export/heaps/heap_service.h"
#include "daemon/export/heaps/kept_heaps.h"
#include "daemon/export/heaps/largest_blocks.h"

namespace memprofd {

// The services must outlive the methods.
template <typename Visit>
void each_heap_method(ControlService& control, HeapService& taken, KeptHeaps& kept,
                      const Visit& visit) {
  namespace pb = ::memprof::v1;
  visit(StreamMethod<pb::TakeHeapRequest, pb::TakeSnapshotResponse>{
      "TakeHeap", Role::kControlProgram, Queue::kNone,
      [](const auto& request) { return AuditLine{name_of(request)}; },
      [&control](const auto& request, const auto& call) {
        return take_heap(control, request, call);
      }});
  visit(Method<pb::DescribeHeapRequest, pb::DescribeHeapResponse>{
      "DescribeHeap", "heap", Role::kControlProgram, Queue::kCalls,
      logged_as("snapshot to describe"), [&taken](const auto& request, const MethodCall& call) {
        return taken.describe(request, call.process, call.waits);
      }});
  visit(Method<pb::WhyRequest, pb::HeapWhy>{"Why", "why", Role::kControlProgram, Queue::kCalls,
                                            logged_as("snapshot for why"),
                                            [&taken](const auto& request, const MethodCall& call) {
                                              return taken.why(request, call.process, call.waits);
                                            }});
  visit(Method<pb::ListHeapsRequest, pb::ListHeapsResponse>{
      "ListHeaps", "heaps", Role::kAsk, Queue::kCalls, nullptr,
      [&kept](const auto& request, const MethodCall&) { return kept.list(request); }});
  visit(Method<pb::ListCensusesRequest, pb::ListCensusesResponse>{
      "ListCensuses", "censuses", Role::kAsk, Queue::kCalls, nullptr,
      [&kept](const auto& request, const MethodCall&) { return kept.censuses(request); }});
  visit(Method<pb::KeepHeapRequest, pb::KeepHeapResponse>{
      "KeepHeap", "keep_heap", Role::kControlAll, Queue::kCalls, logged_as("snapshot to keep"),
      [&kept](const auto& request, const MethodCall& call) {
        return kept.keep(request, call.waits);
      }});
  visit(Method<pb::CompareHeapsRequest, pb::HeapDiff>{
      "CompareHeaps", "compare_heaps", Role::kControlAll, Queue::kCalls, nullptr,
      [&kept](const auto& request, const MethodCall&) { return kept.compare(request); }});
  // Answers from one stored snapshot: answer(image, paths, rows).
  const auto visit_answer =
      [&]<typename Request, typename Answer>(
          const char* rpc, const char* route, const Request& /*request*/,
          Answer (*answer)(const HeapImage&, const ShortestPaths&, std::size_t)) {
        visit(Method<Request, Answer>{rpc, route, Role::kControlAll, Queue::kCalls, nullptr,
                                      [&kept, answer](const Request& request, const MethodCall&) {
                                        return kept.answer(request, answer);
                                      }});
      };
  visit_answer("FindWaste", "find_waste", pb::FindWasteRequest(), &waste_answer);
  visit_answer("FindGarbage", "find_garbage", pb::FindGarbageRequest(), &garbage_answer);
  visit_answer("FindLargest", "find_largest", pb::FindLargestRequest(), &largest_answer);
  visit_answer("FindAssertions", "find_assertions", pb::FindAssertionsRequest(),
               &assertions_answer);
}

}  // namespace memprofd
