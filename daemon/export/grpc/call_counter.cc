// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/call_counter.h"

#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/util/guard.h"
#include "google/protobuf/descriptor.h"

namespace memprofd {
namespace {

using Hook = grpc::experimental::InterceptionHookPoints;
using RpcType = grpc::experimental::ServerRpcInfo::Type;

// Names of the status codes, by number, as other servers with Prometheus metrics use them.
constexpr std::array<const char*, 17> kCodes{
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

const char* code_name(int code) {
  return code >= 0 && code < static_cast<int>(kCodes.size()) ? kCodes[code] : "Unknown";
}

const char* type_name(RpcType type) {
  switch (type) {
    case RpcType::UNARY:
      return "unary";
    case RpcType::CLIENT_STREAMING:
      return "client_stream";
    case RpcType::SERVER_STREAMING:
      return "server_stream";
    case RpcType::BIDI_STREAMING:
      return "bidi_stream";
  }
  return "unknown";
}

// True if the method exists: clients may request any name.
bool is_there(const std::string& service, const std::string& method) {
  if (service == "grpc.health.v1.Health") return method == "Check" || method == "Watch";
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  return pool->FindMethodByName(absl::StrCat(service, ".", method)) != nullptr;
}

// The labels of a call such as "/memprof.v1.Profiler/Attach".
RequestCounts::Kind kind_of(const grpc::experimental::ServerRpcInfo& call) {
  const std::pair<std::string, std::string> path =
      absl::StrSplit(absl::StripPrefix(call.method(), "/"), absl::MaxSplits('/', 1));
  const bool known = is_there(path.first, path.second);
  return {{"grpc_type", known ? type_name(call.type()) : "unknown"},
          {"grpc_service", known ? path.first : "unknown"},
          {"grpc_method", known ? path.second : "unknown"}};
}

// gRPC catches exceptions of methods and returns UNKNOWN, which no other code here does.
void count_error(grpc::experimental::InterceptorBatchMethods& methods) {
  if (methods.GetSendStatus().error_code() != grpc::StatusCode::UNKNOWN) return;
  note_unexpected_error("to answer a call over gRPC",
                        std::runtime_error(methods.GetSendStatus().error_message()));
  methods.ModifySendStatus(
      {grpc::StatusCode::INTERNAL, "memprofd failed to answer; see its log, and ask again later"});
}

class CountedCall : public grpc::experimental::Interceptor {
 public:
  CountedCall(std::shared_ptr<ServerStats> stats, UnreadAnswers& unread, UserSlots& reflections,
              grpc::experimental::ServerRpcInfo& call)
      : stats_(std::move(stats)),
        unread_(unread),
        context_(*call.server_context()),
        has_one_answer_(call.type() == RpcType::UNARY),
        kind_(kind_of(call)) {
    stats_->grpc.begin(kind_);
    if (absl::StartsWith(call.method(), "/grpc.reflection.")) reflections_ = &reflections;
  }
  ~CountedCall() override { unread_.end(context_); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (reflections_ != nullptr && !slot_ &&
        methods->QueryInterceptionHookPoint(Hook::POST_RECV_INITIAL_METADATA)) {
      auto slot = reflections_->take(GrpcAccess::caller(context_).user());
      if (slot.ok()) slot_ = *std::move(slot);
      if (!slot_) context_.TryCancel();
    }
    if (has_one_answer_ && methods->QueryInterceptionHookPoint(Hook::PRE_SEND_MESSAGE)) {
      unread_.begin(context_);
    }
    if (methods->QueryInterceptionHookPoint(Hook::POST_SEND_MESSAGE)) unread_.end(context_);
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_STATUS)) {
      count_error(*methods);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began_;
      stats_->grpc.end(kind_, code_name(methods->GetSendStatus().error_code()), taken.count());
    }
    methods->Proceed();
  }

 private:
  const std::shared_ptr<ServerStats> stats_;
  UnreadAnswers& unread_;
  grpc::ServerContextBase& context_;
  UserSlots* reflections_ = nullptr;  // null: not a reflection
  std::optional<UserSlots::Slot> slot_;
  const bool has_one_answer_;  // a stream itself notices that it has no reader
  const RequestCounts::Kind kind_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace

grpc::experimental::Interceptor* CallCounter::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* call) {
  return new CountedCall(stats_, unread_, reflections_, *call);
}

}  // namespace memprofd
