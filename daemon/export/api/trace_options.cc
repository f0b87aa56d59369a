// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/trace_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/request_checks.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

constexpr std::uint32_t kMaxFiles = 10'000;

absl::Status check(const pb::TraceOptions& options) {
  RETURN_IF_ERROR(check_pid(options.pid()));
  if (options.version() != 0 && options.version() != ctf::kVersionOneDomain &&
      options.version() != ctf::kVersionDomains) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad trace version ", options.version(), ": it is 2 or 3"));
  }
  if (!std::isfinite(options.max_seconds()) || options.max_seconds() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("bad time limit ", options.max_seconds(),
                                                   " s: it is 0, for none, or positive"));
  }
  if (options.max_bytes() != 0 && options.max_bytes() < RecordingOptions::kMinFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bad size limit ", options.max_bytes(), ": a trace of less than ",
        RecordingOptions::kMinFileBytes, " bytes holds almost nothing; 0 means no limit"));
  }
  if (options.heap() != pb::BLOCK_HEAP_UNSPECIFIED && options.heap() != pb::BLOCK_HEAP_C) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad heap ", options.heap(),
                     " of a trace: it is BLOCK_HEAP_C, or none for all of OCaml's"));
  }
  if (options.max_files() > kMaxFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad number of files ", options.max_files(), ": at most ", kMaxFiles));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RecorderOptions> recorder_options(const ::memprof::v1::TraceOptions& options) {
  if (absl::Status status = check(options); !status.ok()) return status;
  RecorderOptions result;
  result.version = options.version();
  result.max_seconds = options.max_seconds();
  result.recording.max_bytes = options.max_bytes();
  result.recording.rotate = options.max_files() > 0;
  result.recording.of_c = options.heap() == pb::BLOCK_HEAP_C;
  return result;
}

::memprof::v1::TraceStats to_proto(const RecordingStats& stats) {
  ::memprof::v1::TraceStats out;
  out.set_bytes(stats.bytes);
  out.set_events(stats.events);
  out.set_samples(stats.samples);
  out.set_dropped_events(stats.dropped_events);
  out.set_unfollowed_events(stats.unfollowed_events);
  out.set_lost_records(stats.lost_records);
  return out;
}

}  // namespace memprofd
