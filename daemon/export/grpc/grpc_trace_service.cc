// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_trace_service.h"

#include "daemon/export/grpc/grpc_status.h"

namespace memprofd {

namespace pb = ::memprof::v1;

grpc::Status GrpcTraceService::Record(grpc::ServerContext* context,
                                      const pb::RecordRequest* request,
                                      grpc::ServerWriter<pb::RecordResponse>* writer) {
  const auto place = streams_.take();
  if (!place) return no_stream_left();
  const absl::StatusOr<std::unique_ptr<TraceStream>> stream = traces_.record(request->options());
  if (!stream.ok()) return to_grpc(stream.status());
  const auto send = [&](const pb::RecordResponse& message) { return writer->Write(message); };
  while (!context->IsCancelled() && (*stream)->step(send)) {
  }
  return grpc::Status::OK;
}

grpc::Status GrpcTraceService::StartTrace(grpc::ServerContext*,
                                          const pb::StartTraceRequest* request,
                                          pb::StartTraceResponse* response) {
  return grpc_answer(traces_.start(request->options()), *response->mutable_trace());
}

grpc::Status GrpcTraceService::StopTrace(grpc::ServerContext*, const pb::StopTraceRequest* request,
                                         pb::StopTraceResponse* response) {
  return grpc_answer(traces_.stop(request->id()), *response->mutable_trace());
}

grpc::Status GrpcTraceService::ListTraces(grpc::ServerContext*, const pb::ListTracesRequest*,
                                          pb::ListTracesResponse* response) {
  *response = traces_.list();
  return grpc::Status::OK;
}

}  // namespace memprofd
