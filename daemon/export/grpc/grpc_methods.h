// SPDX-License-Identifier: Apache-2.0
// A service of gRPC that is made from a list of methods. Slow to compile: include it in
// grpc_server.cc only.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/method_handler.h>

#include <deque>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/method.h"
#include "daemon/export/api/request_checks.h"
#include "daemon/export/clients/answer_turns.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/grpc_queues.h"
#include "daemon/export/grpc/grpc_status.h"

namespace memprofd {

// Generated services do the same with a class and three declarations for each method.
class GrpcMethods final : public grpc::Service {
 public:
  // name: "memprof.v1.Heaps". access and queues must outlive this.
  GrpcMethods(std::string name, const GrpcAccess& access, GrpcQueues& queues)
      : name_(std::move(name)), access_(access), queues_(queues) {}

  const std::string& name() const { return name_; }

  template <typename Request, typename Response>
  void add(Method<Request, Response> method) {
    if (method.rpc == nullptr) return;
    using Handler = grpc::internal::RpcMethodHandler<GrpcMethods, Request, Response>;
    add_handler(method.rpc, grpc::internal::RpcMethod::NORMAL_RPC,
                new Handler(
                    [method](GrpcMethods* self, grpc::ServerContext* context,
                             const Request* request, Response* response) {
                      return self->answer(*context, method, *request, *response);
                    },
                    this));
  }

  template <typename Request, typename Message>
  void add(StreamMethod<Request, Message> stream) {
    using Handler = grpc::internal::ServerStreamingHandler<GrpcMethods, Request, Message>;
    add_handler(stream.rpc, grpc::internal::RpcMethod::SERVER_STREAMING,
                new Handler(
                    [stream](GrpcMethods* self, grpc::ServerContext* context,
                             const Request* request, grpc::ServerWriter<Message>* writer) {
                      return self->run(*context, stream, *request, *writer);
                    },
                    this));
  }

 private:
  // As long as the call lasts.
  using Admission = std::variant<std::monostate, GrpcAccess::Call, AnswerTurns::Turn>;

  void add_handler(const char* rpc, grpc::internal::RpcMethod::RpcType type,
                   grpc::internal::MethodHandler* handler) {
    paths_.push_back(absl::StrCat("/", name_, "/", rpc));
    AddMethod(new grpc::internal::RpcServiceMethod(paths_.back().c_str(), type, handler));
  }

  absl::StatusOr<Admission> admit(Queue queue, const grpc::ServerContext& context) {
    switch (queue) {
      case Queue::kNone:
        return Admission();
      case Queue::kAnswers:
        return queues_.answers.take(GrpcAccess::caller(context).user());
      case Queue::kWatched:
        return queues_.watched.take(GrpcAccess::caller(context).user());
      case Queue::kCalls:
      case Queue::kTargets:
      case Queue::kValues:
        break;
    }
    return access_.begin(context);
  }

  // The process that a request is about, for a caller who may make it.
  absl::StatusOr<RequestedProcess> allowed(const GrpcCaller& caller, Role role,
                                           RequestedProcess process) const {
    const bool is_about_one =
        role == Role::kControlProgram || (role == Role::kInspectProgram && process.pid != 0);
    if (role == Role::kInspectProgram && process.pid < 0) return check_pid(process.pid);
    if (is_about_one) return access_.process_for(caller, process.pid, process.start_time_ticks);
    process.user = access_.user_for(caller);
    if (role == Role::kControlAll || (role == Role::kControlOwn && !process.user)) {
      const absl::Status status = access_.check_control(caller);
      if (!status.ok()) return status;
    }
    return process;
  }

  template <typename Request, typename Response>
  grpc::Status answer(const grpc::ServerContext& context, const Method<Request, Response>& method,
                      const Request& request, Response& response) {
    const auto admission = admit(method.queue, context);
    if (!admission.ok()) return to_grpc(admission.status());
    const GrpcCaller caller = GrpcAccess::caller(context);
    const RequestedProcess asked = method.process(request);
    const Role role = method.role_of == nullptr ? method.role : method.role_of(request);
    const auto process = allowed(caller, role, asked);
    const auto waits = [&context] { return !context.IsCancelled(); };
    absl::StatusOr<Response> answered =
        process.ok() ? method.answer(request, {*process, waits}) : process.status();
    audit_call(method.audit, request, asked.pid, caller.name, !process.ok(), answered.status(),
               answered.ok() ? method.done(*answered) : "");
    return grpc_answer(std::move(answered), response);
  }

  template <typename Request, typename Message>
  grpc::Status run(grpc::ServerContext& context, const StreamMethod<Request, Message>& stream,
                   const Request& request, grpc::ServerWriter<Message>& writer) {
    const auto slot = queues_.streams.take(context);
    if (!slot) return no_stream_left();
    const GrpcCaller caller = GrpcAccess::caller(context);
    const RequestedProcess asked = process_in(request);
    const auto process = allowed(caller, stream.role, asked);
    bool is_logged = false;
    const auto log = [&](const absl::Status& outcome, std::string_view done) {
      if (std::exchange(is_logged, true)) return;
      audit_call(stream.audit, request, asked.pid, caller.name, !process.ok(), outcome, done);
    };
    const auto ended = [&] {
      return stream.run(
          request, {.process = *process,
                    .send =
                        [&](const Message& message) {
                          return slot->write([&] { return writer.Write(message); });
                        },
                    .waits = [&] { return !context.IsCancelled(); },
                    .wait = [&](auto due) { return wait_for_next(context, queues_.stop, due); },
                    .turn = [&]() -> absl::StatusOr<AnswerTurns::Turn> {
                      auto& turns =
                          stream.queue == Queue::kWatched ? queues_.watched : queues_.answers;
                      return turns.take(caller.user());
                    },
                    .done = [&](std::string_view remarks) { log(absl::OkStatus(), remarks); }});
    };
    const absl::Status status = process.ok() ? ended() : process.status();
    log(status, "");
    return to_grpc(status);
  }

  const std::string name_;
  const GrpcAccess& access_;
  GrpcQueues& queues_;
  std::deque<std::string> paths_;  // that gRPC points to
};

}  // namespace memprofd
