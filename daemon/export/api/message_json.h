// SPDX-License-Identifier: Apache-2.0
// Messages of the API as JSON.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace memprofd {

// Field names as in the proto, all fields; pretty: for people, with line breaks.
absl::StatusOr<std::string> message_json(const google::protobuf::Message& message, bool pretty);

}  // namespace memprofd
