// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/refusal_details.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <cstdint>

#include "memprof/v1/profiler.pb.h"

namespace memprofd {
namespace {

// Field numbers of google.rpc.Status, which gRPC's libraries read in every language.
enum StatusField { kCode = 1, kMessage = 2, kDetails = 3 };

}  // namespace

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

}  // namespace memprofd
