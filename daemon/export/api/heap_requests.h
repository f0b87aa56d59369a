// SPDX-License-Identifier: Apache-2.0
// Requests for heap snapshots, and their answers, as the API's messages. Whoever takes a snapshot
// for a client uses these: memprofd, and memprofctl without it.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/model/control.h"
#include "memprof/v1/heaps.pb.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// kInvalidArgument: contents of an unknown kind.
absl::StatusOr<HeapContents> contents_of(::memprof::v1::HeapContents contents);
// The request without its process. kInvalidArgument: the pause is out of range.
absl::StatusOr<HeapRequest> heap_request(const ::memprof::v1::TakeSnapshotRequest& request,
                                         HeapContents contents);
::memprof::v1::SnapshotSummary to_proto(const HeapSummary& summary);
// The summary for the client. Maps errors of take_heap() to codes for clients. A predicted pause
// that is too long is one of many reasons why a snapshot is impossible. A timeout and another
// running snapshot are limits, so a retry may succeed. A target that has gone meanwhile can have no
// snapshot any more.
absl::StatusOr<::memprof::v1::SnapshotSummary> heap_answer(
    const absl::StatusOr<HeapSummary>& taken);

}  // namespace memprofd
