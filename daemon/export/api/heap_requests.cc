// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/heap_requests.h"

#include "absl/strings/str_cat.h"
#include "daemon/model/pause_refusal.h"
#include "daemon/snapshot/block_header.h"

namespace memprofd {

namespace pb = ::memprof::v1;

absl::StatusOr<HeapContents> contents_of(pb::HeapContents contents) {
  switch (contents) {
    case pb::HEAP_CONTENTS_UNSPECIFIED:
      return HeapContents::kNone;
    case pb::HEAP_CONTENTS_FINGERPRINTS:
      return HeapContents::kFingerprints;
    case pb::HEAP_CONTENTS_ALL:
      return HeapContents::kContents;
    default:
      return absl::InvalidArgumentError("unknown kind of contents");
  }
}

absl::StatusOr<HeapRequest> heap_request(const pb::TakeSnapshotRequest& request,
                                         HeapContents contents) {
  HeapRequest asked{.contents = contents};
  const double pause = request.max_pause_seconds();
  if (!(pause >= 0 && pause <= kLongestPauseSeconds)) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad pause ", pause, " s: it is 0 to ", kLongestPauseSeconds));
  }
  if (pause != 0) asked.max_pause_seconds = pause;
  return asked;
}

pb::SnapshotSummary to_proto(const HeapSummary& summary) {
  pb::SnapshotSummary out;
  out.set_pause_seconds(summary.pause_seconds);
  out.set_predicted_pause_seconds(summary.predicted_pause_seconds);
  out.set_heap_bytes(summary.heap_words * kWordBytes);
  out.set_blocks(summary.blocks);
  out.set_file_bytes(summary.file_bytes);
  return out;
}

absl::StatusOr<pb::SnapshotSummary> heap_answer(const absl::StatusOr<HeapSummary>& taken) {
  switch (taken.status().code()) {
    case absl::StatusCode::kOk:
      return to_proto(*taken);
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAlreadyExists:
      return with_code(taken.status(), absl::StatusCode::kResourceExhausted);
    case absl::StatusCode::kAborted:
      return with_code(taken.status(), absl::StatusCode::kNotFound);
    case absl::StatusCode::kOutOfRange:
      return with_code(taken.status(), absl::StatusCode::kFailedPrecondition);
    default:
      return taken.status();
  }
}

}  // namespace memprofd
