// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_heaps_service.h"

#include <utility>

#include "daemon/export/api/audit.h"
#include "daemon/export/api/heap_service.h"
#include "daemon/export/grpc/grpc_status.h"

namespace memprofd {

namespace pb = ::memprof::v1;

grpc::Status GrpcHeapsService::DescribeHeap(grpc::ServerContext* context,
                                            const pb::DescribeHeapRequest* request,
                                            pb::DescribeHeapResponse* response) {
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const absl::Status allowed = access_.check_control(caller, request->pid());
  auto answer = allowed.ok() ? describe_heap(control_, *request,
                                             [context] { return !context->IsCancelled(); })
                             : allowed;
  audit(request->pid(), "snapshot to describe", caller.name, answer.status());
  return grpc_answer(std::move(answer), *response);
}

}  // namespace memprofd
