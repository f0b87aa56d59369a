// SPDX-License-Identifier: Apache-2.0
// The methods of memprof.v1.Trace. Slow to compile: include it in grpc_server.cc
// only.
#pragma once

#include "daemon/export/api/trace_service.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/stream_slots.h"
#include "memprof/v1/profiler.grpc.pb.h"

namespace memprofd {

class GrpcTraceService final : public ::memprof::v1::Trace::Service {
 public:
  // All must outlive this.
  GrpcTraceService(TraceService& traces, const GrpcAccess& access, StreamSlots& streams)
      : traces_(traces), access_(access), streams_(streams) {}

  grpc::Status Record(grpc::ServerContext* context, const ::memprof::v1::RecordRequest* request,
                      grpc::ServerWriter<::memprof::v1::RecordResponse>* writer) override;
  grpc::Status EndRecording(grpc::ServerContext* context,
                            const ::memprof::v1::EndRecordingRequest* request,
                            ::memprof::v1::EndRecordingResponse* response) override;
  grpc::Status StartTrace(grpc::ServerContext* context,
                          const ::memprof::v1::StartTraceRequest* request,
                          ::memprof::v1::StartTraceResponse* response) override;
  grpc::Status StopTrace(grpc::ServerContext* context,
                         const ::memprof::v1::StopTraceRequest* request,
                         ::memprof::v1::StopTraceResponse* response) override;
  grpc::Status ListTraces(grpc::ServerContext* context,
                          const ::memprof::v1::ListTracesRequest* request,
                          ::memprof::v1::ListTracesResponse* response) override;

 private:
  TraceService& traces_;
  const GrpcAccess& access_;
  StreamSlots& streams_;
};

}  // namespace memprofd
