// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_memory_service.h"

#include <utility>

#include "daemon/export/api/request_checks.h"
#include "daemon/export/api/rss_convert.h"
#include "daemon/export/grpc/grpc_status.h"

namespace memprofd {

grpc::Status GrpcMemoryService::GetRss(grpc::ServerContext* context,
                                       const ::memprof::v1::GetRssRequest* request,
                                       ::memprof::v1::GetRssResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const absl::Status status = check_pid(request->pid());
  if (!status.ok()) return to_grpc(status);
  const auto process = access_.process_for(GrpcAccess::caller(*context), request->pid());
  if (!process.ok()) return to_grpc(process.status());
  absl::StatusOr<::memprof::v1::GetRssResponse> answer = get_rss(service_, *request, *process);
  if (!answer.ok()) return to_grpc(answer.status());
  *response = *std::move(answer);
  return grpc::Status::OK;
}

}  // namespace memprofd
