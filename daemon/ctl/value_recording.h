// SPDX-License-Identifier: Apache-2.0
// Published values during the recording of a trace: a file beside the trace's, "trace.ctf.values",
// which has an answer of memprof.v1.Values/GetValueHistory.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/history/value_history.h"
#include "memprof/v1/values.pb.h"

namespace memprofd::ctl {

std::string values_file_of(const std::string& trace_file);

absl::Status write_value_recording(const ::memprof::v1::GetValueHistoryResponse& values,
                                   const std::string& trace_file);

// Returns null if there is no such file. kDataLoss: the file has another format.
absl::StatusOr<ValueHistoryViewPtr> read_value_recording(const std::string& trace_file);

}  // namespace memprofd::ctl
