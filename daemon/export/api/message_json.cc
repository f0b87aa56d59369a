// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/message_json.h"

#include "absl/status/status.h"
#include "google/protobuf/util/json_util.h"

namespace memprofd {

absl::StatusOr<std::string> message_json(const google::protobuf::Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  options.add_whitespace = pretty;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    return absl::InternalError("the answer cannot be written as JSON");
  }
  return text;
}

}  // namespace memprofd
