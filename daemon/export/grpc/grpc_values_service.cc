// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_values_service.h"

#include <utility>

#include "daemon/export/api/audit.h"
#include "daemon/export/grpc/grpc_status.h"

namespace memprofd {

namespace pb = ::memprof::v1;

// What a program holds is told to those who may control it, and who has seen contents is logged.
grpc::Status GrpcValuesService::ListValues(grpc::ServerContext* context,
                                           const pb::ListValuesRequest* request,
                                           pb::ListValuesResponse* response) {
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const absl::Status allowed = access_.check_control(caller, request->pid());
  auto answer = allowed.ok()
                    ? values_.list_values(*request, [context] { return !context->IsCancelled(); })
                    : allowed;
  if (request->with_contents() || !allowed.ok()) {
    audit(request->pid(), request->with_contents() ? "contents of values" : "values", caller.name,
          answer.status());
  }
  return grpc_answer(std::move(answer), *response);
}

grpc::Status GrpcValuesService::Resume(grpc::ServerContext* context,
                                       const pb::ResumeRequest* request,
                                       pb::ResumeResponse* response) {
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const absl::Status allowed = access_.check_control(caller, request->pid());
  auto answer = allowed.ok() ? values_.resume(*request) : allowed;
  audit(request->pid(), "resume", caller.name, answer.status());
  return grpc_answer(std::move(answer), *response);
}

}  // namespace memprofd
