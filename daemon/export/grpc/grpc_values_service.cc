// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_values_service.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/grpc/grpc_status.h"
#include "daemon/util/utf8.h"

namespace memprofd {

namespace pb = ::memprof::v1;
using std::chrono::steady_clock;

namespace {

// For who may control the program, with a line in the log, to which cost(response) adds what came
// of it. answer(process): what the service says.
template <typename Request, typename Response, typename Answer>
grpc::Status command(const GrpcAccess& access, const grpc::ServerContext& context,
                     const Request& request, const std::string& what, Response& response,
                     const Answer& answer,
                     std::string (*cost)(const std::type_identity_t<Response>&) = nullptr) {
  const auto call = access.begin(context);
  if (!call.ok()) return to_grpc(call.status());
  const GrpcCaller caller = GrpcAccess::caller(context);
  const auto process = access.process_for(caller, request.pid());
  absl::StatusOr<Response> answered = process.ok() ? answer(*process) : process.status();
  audit(request.pid(), what, caller.name, answered.status(),
        answered.ok() && cost != nullptr ? cost(*answered) : "");
  return grpc_answer(std::move(answered), response);
}

}  // namespace

// The contents of a program are for users who may control it, and each access to them is logged.
grpc::Status GrpcValuesService::ListValues(grpc::ServerContext* context,
                                           const pb::ListValuesRequest* request,
                                           pb::ListValuesResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const auto process = access_.process_for(caller, request->pid());
  auto answer = process.ok() ? values_.list_values(*request, *process,
                                                   [context] { return !context->IsCancelled(); })
                             : process.status();
  if (request->with_contents() || !process.ok()) {
    audit(request->pid(), request->with_contents() ? "contents of values" : "values", caller.name,
          answer.status());
  }
  return grpc_answer(std::move(answer), *response);
}

grpc::Status GrpcValuesService::WatchValues(grpc::ServerContext* context,
                                            const pb::WatchValuesRequest* request,
                                            grpc::ServerWriter<pb::WatchValuesResponse>* writer) {
  const auto slot = streams_.take(*context);
  if (!slot) return no_stream_left();
  const int pid = request->values().pid();
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const auto process = access_.process_for(caller, pid);
  auto stream = process.ok() ? ValuesStream::open(service_, *request, *process) : process.status();
  if (request->values().with_contents() || !process.ok()) {
    audit(pid, request->values().with_contents() ? "watch contents of values" : "watch values",
          caller.name, stream.status());
  }
  if (!stream.ok()) return to_grpc(stream.status());
  for (auto due = steady_clock::now(); wait_for_next(*context, stop_, due);) {
    const auto message = stream->next([context] { return !context->IsCancelled(); });
    if (!message.ok()) return to_grpc(message.status());
    if (!slot->write([&] { return writer->Write(*message); })) break;
    due = std::max(due + stream->period(), steady_clock::now());
  }
  return grpc::Status::OK;
}

grpc::Status GrpcValuesService::Resume(grpc::ServerContext* context,
                                       const pb::ResumeRequest* request,
                                       pb::ResumeResponse* response) {
  return command(access_, *context, *request, "resume", *response,
                 [&](const AskedProcess& process) { return values_.resume(*request, process); });
}

grpc::Status GrpcValuesService::Adjust(grpc::ServerContext* context,
                                       const pb::AdjustRequest* request,
                                       pb::AdjustResponse* response) {
  return command(
      access_, *context, *request, text_of(*request), *response,
      [&](const AskedProcess& process) { return values_.adjust(*request, process); },
      [](const pb::AdjustResponse& answer) { return absl::StrCat("it has ", answer.count()); });
}

grpc::Status GrpcValuesService::KeepValues(grpc::ServerContext* context,
                                           const pb::KeepValuesRequest* request,
                                           pb::KeepValuesResponse* response) {
  return command(access_, *context, *request, text_of(*request), *response,
                 [&](const AskedProcess& process) { return values_.keep(*request, process); });
}

grpc::Status GrpcValuesService::Ask(grpc::ServerContext* context, const pb::AskRequest* request,
                                    pb::AskResponse* response) {
  return command(
      access_, *context, *request, absl::StrCat("ask '", printable(request->name()), "'"),
      *response, [&](const AskedProcess& process) {
        return values_.ask(*request, process, [context] { return !context->IsCancelled(); });
      });
}

// Numbers are those that metrics have; lines are for those who may control the program, or might
// while it ran: whoever has its pid now has no part in it.
grpc::Status GrpcValuesService::GetValueHistory(grpc::ServerContext* context,
                                                const pb::GetValueHistoryRequest* request,
                                                pb::GetValueHistoryResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const auto user = access_.user_for(caller);
  const absl::Status allowed =
      request->with_lines() && !user ? access_.check_control(caller) : absl::OkStatus();
  auto answer = allowed.ok() ? values_.history(*request, user) : allowed;
  if (absl::IsPermissionDenied(answer.status())) {
    audit(request->pid(), "lines of its log", caller.name, answer.status());
  }
  return grpc_answer(std::move(answer), *response);
}

}  // namespace memprofd
