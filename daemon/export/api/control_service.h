// SPDX-License-Identifier: Apache-2.0
// Attach, detach and rate changes as the API's messages: the one implementation
// behind gRPC and HTTP.
#pragma once

#include "absl/status/statusor.h"
#include "daemon/export/api/service.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// Thread-safe. Each RequestedProcess is the process of a request and the user who asks. All calls:
// kInvalidArgument for an invalid request, otherwise the errors of ProfilerService.
class ControlService {
 public:
  // service must outlive this.
  explicit ControlService(ProfilerService& service) : service_(service) {}

  absl::StatusOr<::memprof::v1::AttachResponse> attach(const ::memprof::v1::AttachRequest& request,
                                                       const RequestedProcess& process);
  absl::StatusOr<::memprof::v1::DetachResponse> detach(const ::memprof::v1::DetachRequest& request,
                                                       const RequestedProcess& process);
  absl::StatusOr<::memprof::v1::SetRateResponse> set_rate(
      const ::memprof::v1::SetRateRequest& request, const RequestedProcess& process);

  // Hands the file to the client; returns the summary when the file is complete.
  absl::StatusOr<::memprof::v1::SnapshotSummary> take_snapshot(
      const ::memprof::v1::TakeSnapshotRequest& request, const RequestedProcess& process,
      const HeapClient& client, HeapContents contents = HeapContents::kNone);

 private:
  ProfilerService& service_;
};

}  // namespace memprofd
