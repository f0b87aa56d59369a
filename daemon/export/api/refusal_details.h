// SPDX-License-Identifier: Apache-2.0
// The details of an error that refuses a snapshot for its pause: a serialized google.rpc.Status
// with a memprof.v1.PauseRefused.
#pragma once

#include <optional>
#include <string>

#include "daemon/model/pause_refusal.h"

namespace memprofd {

// code, message: of the error, as gRPC sends them.
std::string details_of(const PauseRefusal& refusal, int code, const std::string& message);
// Returns nullopt if the details are of something else, or damaged.
std::optional<PauseRefusal> refusal_in(const std::string& details);

}  // namespace memprofd
