// SPDX-License-Identifier: Apache-2.0
// URL parameters as request messages of the gRPC API, so that HTTP asks the same
// questions.
//
// A parameter's name is a field's: "limit", or with its way, "base.pid",
// "selection.filter.pattern". The way can be left out where the nearest field of
// the name is the only one so near: "pid", "pattern", "last_seconds". Repeated fields take
// several parameters. Enum values can be given without their type, in lower case:
// "order=allocated" is MEASURE_ALLOCATED.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace memprofd {

// kInvalidArgument names the parameter and what is wrong with it.
absl::Status fill_from_params(const std::multimap<std::string, std::string>& params,
                              google::protobuf::Message& message);

}  // namespace memprofd
