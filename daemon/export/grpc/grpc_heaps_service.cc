// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_heaps_service.h"

#include <utility>

#include "daemon/export/api/audit.h"
#include "daemon/export/grpc/grpc_status.h"
#include "daemon/export/heaps/heap_service.h"

namespace memprofd {

namespace pb = ::memprof::v1;

namespace {

absl::StatusOr<HeapContents> contents_of(pb::HeapContents contents) {
  switch (contents) {
    case pb::HEAP_CONTENTS_UNSPECIFIED:
      return HeapContents::kNone;
    case pb::HEAP_CONTENTS_FINGERPRINTS:
      return HeapContents::kFingerprints;
    case pb::HEAP_CONTENTS_ALL:
      return HeapContents::kContents;
    default:
      return absl::InvalidArgumentError("unknown kind of contents");
  }
}

}  // namespace

grpc::Status GrpcHeapsService::DescribeHeap(grpc::ServerContext* context,
                                            const pb::DescribeHeapRequest* request,
                                            pb::DescribeHeapResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const auto process = access_.process_for(caller, request->pid());
  auto answer = process.ok() ? describe_heap(heaps_, control_, *request, *process,
                                             [context] { return !context->IsCancelled(); })
                             : process.status();
  audit(request->pid(), "snapshot to describe", caller.name, answer.status());
  return grpc_answer(std::move(answer), *response);
}

grpc::Status GrpcHeapsService::TakeHeap(grpc::ServerContext* context,
                                        const pb::TakeHeapRequest* request,
                                        grpc::ServerWriter<pb::TakeSnapshotResponse>* writer) {
  const auto contents = contents_of(request->contents());
  if (!contents.ok()) return to_grpc(contents.status());
  return heap_stream_.send(*context, request->snapshot(), *contents, *writer);
}

grpc::Status GrpcHeapsService::ListHeaps(grpc::ServerContext* context,
                                         const pb::ListHeapsRequest* request,
                                         pb::ListHeapsResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  *response = kept_.list(*request);
  return grpc::Status::OK;
}

grpc::Status GrpcHeapsService::ListCensuses(grpc::ServerContext* context,
                                            const pb::ListCensusesRequest* request,
                                            pb::ListCensusesResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  return grpc_answer(kept_.censuses(*request), *response);
}

grpc::Status GrpcHeapsService::KeepHeap(grpc::ServerContext* context,
                                        const pb::KeepHeapRequest* request,
                                        pb::KeepHeapResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const absl::Status allowed = access_.check_control(caller);
  auto answer =
      allowed.ok() ? kept_.keep(*request, [context] { return !context->IsCancelled(); }) : allowed;
  audit(request->pid(), "snapshot to keep", caller.name, answer.status());
  return grpc_answer(std::move(answer), *response);
}

grpc::Status GrpcHeapsService::CompareHeaps(grpc::ServerContext* context,
                                            const pb::CompareHeapsRequest* request,
                                            pb::CompareHeapsResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const absl::Status allowed = access_.check_control(GrpcAccess::caller(*context));
  return grpc_answer(allowed.ok() ? kept_.compare(*request) : allowed, *response);
}

grpc::Status GrpcHeapsService::FindWaste(grpc::ServerContext* context,
                                         const pb::FindWasteRequest* request,
                                         pb::FindWasteResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const absl::Status allowed = access_.check_control(GrpcAccess::caller(*context));
  return grpc_answer(allowed.ok() ? kept_.find_waste(*request) : allowed, *response);
}

grpc::Status GrpcHeapsService::FindGarbage(grpc::ServerContext* context,
                                           const pb::FindGarbageRequest* request,
                                           pb::FindGarbageResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const absl::Status allowed = access_.check_control(GrpcAccess::caller(*context));
  return grpc_answer(allowed.ok() ? kept_.find_garbage(*request) : allowed, *response);
}

}  // namespace memprofd
