// SPDX-License-Identifier: Apache-2.0
// Counts the calls of a gRPC server, those of health and reflection too, by method and code, and
// notes whose answers are not taken.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "daemon/export/api/server_stats.h"
#include "daemon/export/grpc/unread_answers.h"
#include "daemon/util/user_slots.h"

namespace memprofd {

class CallCounter : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // At once: each is a stream with a thread, for as long as its client likes.
  static constexpr int kMaxReflections = 8;

  explicit CallCounter(std::shared_ptr<ServerStats> stats)
      : stats_(std::move(stats)), unread_(stats_) {}

  // gRPC owns the result for as long as the call lasts.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override;

 private:
  const std::shared_ptr<ServerStats> stats_;
  UnreadAnswers unread_;
  UserSlots reflections_{kMaxReflections, "streams of reflection are open"};
};

}  // namespace memprofd
