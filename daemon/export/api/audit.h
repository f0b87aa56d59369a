// SPDX-License-Identifier: Apache-2.0
// Who had memprofd do what, and what became of it: a line of the log for each, but no more a minute
// for one user than a log can take. Root and memprofd itself have no such limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// "pid 4242: attach (rate 1e-05/word) by user 0, process 77: done", or refused and why. What is
// refused is a warning. what: with details; who: as the server knows the client; done: what there
// is to say of it once it was done.
// It is for who asks on this thread (util/asker.h).
void audit(int pid, std::string_view what, std::string_view who, const absl::Status& outcome,
           std::string_view done = "");

// How many lines were left out; of others the next line of the user says how many.
std::uint64_t unlogged_requests();

// What a request asks for, with what matters of it: "attach (1e-05/word)".
std::string name_of(const ::memprof::v1::AttachRequest& request);
std::string name_of(const ::memprof::v1::DetachRequest& request);
std::string name_of(const ::memprof::v1::SetRateRequest& request);
// What taking one has cost: "paused for 2.3 ms (1.9 ms predicted), 244 KiB".
std::string cost_of(const ::memprof::v1::SnapshotSummary& summary);

}  // namespace memprofd
