// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_memory_service.h"

#include "daemon/export/api/request_checks.h"
#include "daemon/export/api/rss_convert.h"
#include "daemon/export/grpc/grpc_status.h"

namespace memprofd {

grpc::Status GrpcMemoryService::GetRss(grpc::ServerContext* context,
                                       const ::memprof::v1::GetRssRequest* request,
                                       ::memprof::v1::GetRssResponse* response) {
  absl::Status status = check_pid(request->pid());
  if (status.ok()) status = access_.check_control(GrpcAccess::caller(*context), request->pid());
  if (!status.ok()) return to_grpc(status);
  const absl::StatusOr<RssReport> report =
      service_.account_rss(request->pid(), {.owners = request->owners()});
  if (!report.ok()) return to_grpc(report.status());
  *response = to_proto(*report);
  return grpc::Status::OK;
}

}  // namespace memprofd
