// SPDX-License-Identifier: Apache-2.0
// URL parameters as request messages of the gRPC API, so that HTTP accepts the same questions.
//
// A parameter has the name of a field: "limit", or with its path, "base.pid",
// "selection.filter.pattern". The path may be omitted if exactly one field of that name is nearest
// to the top: "pid", "pattern", "last_seconds". Repeated fields accept several parameters. Enum
// values may be given without their type, in lower case: "order=allocated" is MEASURE_ALLOCATED.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace memprofd {

// kInvalidArgument names the parameter and the fault.
absl::Status fill_from_params(const std::multimap<std::string, std::string>& params,
                              google::protobuf::Message& message);

}  // namespace memprofd
