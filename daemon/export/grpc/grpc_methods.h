// SPDX-License-Identifier: Apache-2.0
// A service of gRPC that is made from a list of methods. Slow to compile: include it in
// grpc_server.cc only.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/method_handler.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/api/method.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/grpc_status.h"

namespace memprofd {

// Generated services do the same with a class and three declarations for each method.
class GrpcMethods final : public grpc::Service {
 public:
  // name: "memprof.v1.Heaps". access must outlive this.
  GrpcMethods(std::string name, const GrpcAccess& access)
      : name_(std::move(name)), access_(access) {}

  template <typename Request, typename Response>
  void add(Method<Request, Response> method) {
    using Handler = grpc::internal::RpcMethodHandler<GrpcMethods, Request, Response>;
    add_handler(method.rpc, grpc::internal::RpcMethod::NORMAL_RPC,
                new Handler(
                    [method](GrpcMethods* self, grpc::ServerContext* context,
                             const Request* request, Response* response) {
                      return self->answer(*context, method, *request, *response);
                    },
                    this));
  }

  // send(context, request, writer): checks itself whether the caller may.
  template <typename Request, typename Response, typename Send>
  void add_stream(const char* rpc, Send send) {
    using Handler = grpc::internal::ServerStreamingHandler<GrpcMethods, Request, Response>;
    add_handler(rpc, grpc::internal::RpcMethod::SERVER_STREAMING,
                new Handler(
                    [send](GrpcMethods*, grpc::ServerContext* context, const Request* request,
                           grpc::ServerWriter<Response>* writer) {
                      return send(*context, *request, *writer);
                    },
                    this));
  }

 private:
  void add_handler(const char* rpc, grpc::internal::RpcMethod::RpcType type,
                   grpc::internal::MethodHandler* handler) {
    paths_.push_back(absl::StrCat("/", name_, "/", rpc));
    AddMethod(new grpc::internal::RpcServiceMethod(paths_.back().c_str(), type, handler));
  }

  // The process that the request is about, for a caller who may make it.
  template <typename Request>
  absl::StatusOr<AskedProcess> allowed(const GrpcCaller& caller, Role role,
                                       const Request& request) const {
    if (role == Role::kControlProgram) return access_.process_for(caller, pid_of(request));
    const absl::Status status =
        role == Role::kControlAll ? access_.check_control(caller) : absl::OkStatus();
    return status.ok() ? absl::StatusOr<AskedProcess>(pid_of(request)) : status;
  }

  template <typename Request, typename Response>
  grpc::Status answer(const grpc::ServerContext& context, const Method<Request, Response>& method,
                      const Request& request, Response& response) const {
    const auto call = access_.begin(context);
    if (!call.ok()) return to_grpc(call.status());
    const GrpcCaller caller = GrpcAccess::caller(context);
    const auto process = allowed(caller, method.role, request);
    const auto waits = [&context] { return !context.IsCancelled(); };
    absl::StatusOr<Response> answered =
        process.ok() ? method.answer(request, {*process, waits}) : process.status();
    if (method.audit != nullptr) {
      audit(pid_of(request), method.audit, caller.name, answered.status());
    }
    return grpc_answer(std::move(answered), response);
  }

  const std::string name_;
  const GrpcAccess& access_;
  std::deque<std::string> paths_;  // that gRPC points to
};

}  // namespace memprofd
