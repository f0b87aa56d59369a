// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_status.h"

#include "daemon/export/api/refusal_details.h"
#include "daemon/model/pause_refusal.h"
#include "daemon/util/utf8.h"

namespace memprofd {

grpc::Status to_grpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message = valid_utf8(std::string(status.message()));
  const auto refusal = pause_refusal_of(status);
  return {code, message, refusal ? details_of(*refusal, code, message) : std::string()};
}

}  // namespace memprofd
