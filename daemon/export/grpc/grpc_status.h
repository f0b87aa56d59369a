// SPDX-License-Identifier: Apache-2.0
// Results of the services as gRPC's.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/export/grpc/stream_slots.h"

namespace memprofd {

// Both libraries number the codes alike.
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) ==
              static_cast<int>(grpc::StatusCode::UNAUTHENTICATED));

// For a snapshot whose pause would be too long, the details are a google.rpc.Status with a
// memprof.v1.PauseRefused.
grpc::Status to_grpc(const absl::Status& status);

inline grpc::Status no_stream_left() {
  return to_grpc(absl::ResourceExhaustedError(absl::StrCat(
      StreamSlots::kSlots, " streams are open, or ", StreamSlots::kSlotsOfUser,
      " of this user, and that is the limit; end another first (events, record, or a client of "
      "WatchSites)")));
}

template <typename Response>
grpc::Status grpc_answer(absl::StatusOr<Response> result, Response& response) {
  if (!result.ok()) return to_grpc(result.status());
  response = *std::move(result);
  return grpc::Status::OK;
}

}  // namespace memprofd
