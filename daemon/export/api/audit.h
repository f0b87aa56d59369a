// SPDX-License-Identifier: Apache-2.0
// The audit log: one line for each request that controls something, with the user and the outcome,
// up to a number of lines per minute for one user. Root and memprofd itself have no such limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// Logs "pid 4242: attach (rate 1e-05/word) by user 0, process 77: done", or "refused" with the
// reason; a refusal is a warning. what: the request with details; who: the client as the server
// knows it; done: remarks about a completed request. The limit applies to the user of this thread
// (util/scoped_user.h).
void audit(int pid, std::string_view what, std::string_view who, const absl::Status& outcome,
           std::string_view done = "");

// Number of lines that were omitted; the next line of a user reports how many of theirs.
std::uint64_t unlogged_requests();

// Text of a request with its important parameters: "attach (1e-05/word)".
std::string name_of(const ::memprof::v1::AttachRequest& request);
std::string name_of(const ::memprof::v1::DetachRequest& request);
std::string name_of(const ::memprof::v1::SetRateRequest& request);
// Cost of a snapshot: "paused for 2.3 ms (1.9 ms predicted), 244 KiB".
std::string cost_of(const ::memprof::v1::SnapshotSummary& summary);

}  // namespace memprofd
