// SPDX-License-Identifier: Apache-2.0
// Answers as JSON, the same for all commands: the messages of the API in protobuf's JSON, as over
// HTTP, with the proto's names. 64-bit numbers are strings; unknown values are omitted. Scripts
// rely on the names of an api_version; fields may be added. Answers from files of heap snapshots,
// which no api_version covers, have all numbers as numbers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/ctl/top/top_question.h"
#include "google/protobuf/message.h"

namespace memprofd::ctl {

// {"api_version": "v1", ...} on several lines, with a newline at the end.
absl::StatusOr<std::string> answer_json(const google::protobuf::Message& message);
// On several lines; 64-bit integers are numbers, and unknown scalars are null.
std::string numeric_json(const google::protobuf::Message& message);
// On one line: the answer to ListSites, with the answer to GetHistory as "history".
absl::StatusOr<std::string> top_json(const TopAnswer& answer);

}  // namespace memprofd::ctl
