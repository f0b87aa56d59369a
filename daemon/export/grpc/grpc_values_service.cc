// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_values_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/grpc/grpc_status.h"
#include "daemon/util/utf8.h"

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

grpc::Status GrpcValuesService::Adjust(grpc::ServerContext* context,
                                       const pb::AdjustRequest* request,
                                       pb::AdjustResponse* response) {
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const absl::Status allowed = access_.check_control(caller, request->pid());
  auto answer = allowed.ok() ? values_.adjust(*request) : allowed;
  audit(request->pid(), text_of(*request), caller.name, answer.status(),
        answer.ok() ? absl::StrCat("it has ", answer->count()) : "");
  return grpc_answer(std::move(answer), *response);
}

grpc::Status GrpcValuesService::KeepValues(grpc::ServerContext* context,
                                           const pb::KeepValuesRequest* request,
                                           pb::KeepValuesResponse* response) {
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const absl::Status allowed = access_.check_control(caller, request->pid());
  auto answer = allowed.ok() ? values_.keep(*request) : allowed;
  audit(request->pid(), text_of(*request), caller.name, answer.status());
  return grpc_answer(std::move(answer), *response);
}

grpc::Status GrpcValuesService::Ask(grpc::ServerContext* context, const pb::AskRequest* request,
                                    pb::AskResponse* response) {
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const absl::Status allowed = access_.check_control(caller, request->pid());
  auto answer =
      allowed.ok() ? values_.ask(*request, [context] { return !context->IsCancelled(); }) : allowed;
  audit(request->pid(), absl::StrCat("ask '", printable(request->name()), "'"), caller.name,
        answer.status());
  return grpc_answer(std::move(answer), *response);
}

// Numbers are those that metrics have; lines are for those who may control the program.
grpc::Status GrpcValuesService::GetValueHistory(grpc::ServerContext* context,
                                                const pb::GetValueHistoryRequest* request,
                                                pb::GetValueHistoryResponse* response) {
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const absl::Status allowed =
      request->with_lines() ? access_.check_control(caller, request->pid()) : absl::OkStatus();
  if (!allowed.ok()) audit(request->pid(), "lines of its log", caller.name, allowed);
  auto answer = allowed.ok() ? values_.history(*request) : allowed;
  return grpc_answer(std::move(answer), *response);
}

}  // namespace memprofd
