// SPDX-License-Identifier: Apache-2.0
// Messages of the API as JSON.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace memprofd {

// Names of fields are as in the proto; all fields are printed. pretty: with line breaks, for
// people.
absl::StatusOr<std::string> message_json(const google::protobuf::Message& message, bool pretty);

}  // namespace memprofd
