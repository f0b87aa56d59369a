// SPDX-License-Identifier: Apache-2.0
// The methods of memprof.v1.Calls. Slow to compile: include it in grpc_server.cc only.
#pragma once

#include "daemon/export/api/calls_service.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/stream_slots.h"
#include "daemon/util/stop_signal.h"
#include "memprof/v1/calls.grpc.pb.h"

namespace memprofd {

class GrpcCallsService final : public ::memprof::v1::Calls::Service {
 public:
  // All must outlive this.
  GrpcCallsService(ProfilerService& service, const GrpcAccess& access, StreamSlots& streams)
      : service_(service), access_(access), streams_(streams) {}

  // Ends all streams, soon.
  void stop() { stop_.stop(); }

  grpc::Status TraceCalls(grpc::ServerContext* context,
                          const ::memprof::v1::TraceCallsRequest* request,
                          grpc::ServerWriter<::memprof::v1::TraceCallsResponse>* writer) override;

 private:
  bool wait(const grpc::ServerContext& context, std::chrono::nanoseconds time);

  ProfilerService& service_;
  const GrpcAccess& access_;
  StreamSlots& streams_;
  StopSignal stop_;
};

}  // namespace memprofd
