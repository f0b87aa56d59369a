// SPDX-License-Identifier: Apache-2.0
// The file of a snapshot as a stream of messages, for the methods that take one.
#pragma once

#include <grpcpp/grpcpp.h>

#include "daemon/export/api/control_service.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/stream_slots.h"
#include "daemon/model/control.h"
#include "daemon/util/stop_signal.h"
#include "memprof/v1/heaps.pb.h"
#include "memprof/v1/profiler.grpc.pb.h"

namespace memprofd {

class HeapStream {
 public:
  // All must outlive this.
  HeapStream(ProfilerService& service, const GrpcAccess& access, StreamSlots& streams)
      : control_(service), access_(access), streams_(streams) {}

  // Ends all of them, soon.
  void stop() { stop_.stop(); }

  // For callers who have the right; logged.
  grpc::Status send(grpc::ServerContext& context, const ::memprof::v1::TakeSnapshotRequest& request,
                    HeapContents contents,
                    grpc::ServerWriter<::memprof::v1::TakeSnapshotResponse>& writer);
  // The same with what the request says of contents.
  grpc::Status send(grpc::ServerContext& context, const ::memprof::v1::TakeHeapRequest& request,
                    grpc::ServerWriter<::memprof::v1::TakeSnapshotResponse>& writer);

 private:
  ControlService control_;
  const GrpcAccess& access_;
  StreamSlots& streams_;
  StopSignal stop_;
};

}  // namespace memprofd
