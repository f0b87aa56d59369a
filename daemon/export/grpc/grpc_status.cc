// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_status.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <optional>
#include <string>

#include "daemon/model/pause_refusal.h"
#include "daemon/util/utf8.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {
namespace {

// Field numbers of google.rpc.Status, which gRPC's libraries read in every language.
enum StatusField { kCode = 1, kMessage = 2, kDetails = 3 };

std::string details_of(const PauseRefusal& refusal, int code, const std::string& message) {
  ::memprof::v1::PauseRefused refused;
  refused.set_predicted_seconds(refusal.predicted_seconds);
  refused.set_allowed_seconds(refusal.allowed_seconds);
  refused.set_enough_seconds(refusal.enough_seconds());
  google::protobuf::Any any;
  any.PackFrom(refused);
  google::protobuf::UnknownFieldSet status;
  status.AddVarint(kCode, static_cast<std::uint64_t>(code));
  status.AddLengthDelimited(kMessage, message);
  status.AddLengthDelimited(kDetails, any.SerializeAsString());
  std::string out;
  return status.SerializeToString(&out) ? out : std::string();
}

std::optional<PauseRefusal> refusal_in(const std::string& details) {
  google::protobuf::UnknownFieldSet status;
  if (!status.ParseFromString(details)) return std::nullopt;
  for (int i = 0; i < status.field_count(); ++i) {
    const google::protobuf::UnknownField& field = status.field(i);
    if (field.number() != kDetails ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    google::protobuf::Any any;
    ::memprof::v1::PauseRefused refused;
    if (any.ParseFromString(field.length_delimited()) && any.UnpackTo(&refused)) {
      return PauseRefusal{.predicted_seconds = refused.predicted_seconds(),
                          .allowed_seconds = refused.allowed_seconds()};
    }
  }
  return std::nullopt;
}

}  // namespace

grpc::Status to_grpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message = valid_utf8(std::string(status.message()));
  const auto refusal = pause_refusal_of(status);
  return {code, message, refusal ? details_of(*refusal, code, message) : std::string()};
}

absl::Status from_grpc(const grpc::Status& status) {
  const absl::Status plain(static_cast<absl::StatusCode>(status.error_code()),
                           status.error_message());
  const auto refusal = refusal_in(status.error_details());
  return refusal ? with_refusal(plain, *refusal) : plain;
}

}  // namespace memprofd
