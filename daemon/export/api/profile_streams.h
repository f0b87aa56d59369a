// SPDX-License-Identifier: Apache-2.0
// The streams of gRPC's Profiler, and the one of Heaps. Each returns when its client leaves.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/export/api/control_service.h"
#include "daemon/export/api/method.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/api/service.h"
#include "daemon/model/control.h"
#include "memprof/v1/heaps.pb.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// Sends the first page of the answer again and again.
absl::Status watch_sites(QueryService& queries, const ::memprof::v1::WatchSitesRequest& request,
                         const StreamCall<::memprof::v1::ListSitesResponse>& call);
// Sends a profile in pieces.
absl::Status stream_profile(QueryService& queries, const ::memprof::v1::GetProfileRequest& request,
                            const StreamCall<::memprof::v1::StreamProfileResponse>& call);
// Sends events of single blocks until the target ends.
absl::Status stream_events(ProfilerService& service,
                           const ::memprof::v1::StreamEventsRequest& request,
                           const StreamCall<::memprof::v1::StreamEventsResponse>& call);
// Takes a heap snapshot and sends its file while it is made.
absl::Status take_snapshot(ControlService& control,
                           const ::memprof::v1::TakeSnapshotRequest& request, HeapContents contents,
                           const StreamCall<::memprof::v1::TakeSnapshotResponse>& call);
// The same with the contents that the request names.
absl::Status take_heap(ControlService& control, const ::memprof::v1::TakeHeapRequest& request,
                       const StreamCall<::memprof::v1::TakeSnapshotResponse>& call);
// Text of a request in memprofd's log: "snapshot with contents".
std::string name_of(const ::memprof::v1::TakeHeapRequest& request);

}  // namespace memprofd
