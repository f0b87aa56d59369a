// SPDX-License-Identifier: Apache-2.0
// Converts trace options and statistics from and to messages.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/trace/recorder.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// kInvalidArgument: an option is invalid.
absl::StatusOr<RecorderOptions> recorder_options(const ::memprof::v1::TraceOptions& options);
::memprof::v1::TraceStats to_proto(const RecordingStats& stats);

}  // namespace memprofd
