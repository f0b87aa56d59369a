// SPDX-License-Identifier: Apache-2.0
// What gRPC clients say and hear of traces.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/trace/recorder.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// kInvalidArgument when a value makes no sense.
absl::StatusOr<RecorderOptions> recorder_options(const ::memprof::v1::TraceOptions& options);
::memprof::v1::TraceStats to_proto(const RecordingStats& stats);

}  // namespace memprofd
