// SPDX-License-Identifier: Apache-2.0
// Completes arguments that command lines may omit.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/ctl/client.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd::ctl {

namespace pb = ::memprof::v1;

// The pid to act on: the requested one, otherwise the only active target, otherwise the only
// target.
absl::StatusOr<int> choose_pid(int asked, const pb::ListTargetsResponse& targets);

// Rate from either form; 0 when neither is given, an error when both are.
absl::StatusOr<double> rate_of(const std::string& rate, const std::string& interval);

// The command with a --max-pause that is enough for the refused snapshot; empty if it was refused
// for another reason.
std::string command_with_pause(const absl::Status& refused, const std::string& command);

// Completes each "`memprofctl WORDS`" of a message with the option that reaches this memprofd.
std::string with_endpoint(std::string_view message, const Endpoint& endpoint);

}  // namespace memprofd::ctl
