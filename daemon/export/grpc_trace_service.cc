#include "daemon/export/grpc_trace_service.h"

#include <string>
#include <utility>

#include "daemon/util/utf8.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

// Both libraries number the codes alike.
grpc::Status to_grpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), valid_utf8(std::string(status.message()))};
}

grpc::Status answer(absl::StatusOr<pb::TraceInfo> trace, pb::TraceInfo& response) {
  if (!trace.ok()) return to_grpc(trace.status());
  response = *std::move(trace);
  return grpc::Status::OK;
}

}  // namespace

grpc::Status GrpcTraceService::Record(grpc::ServerContext* context,
                                      const pb::RecordRequest* request,
                                      grpc::ServerWriter<pb::RecordResponse>* writer) {
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
  return answer(traces_.start(request->options()), *response->mutable_trace());
}

grpc::Status GrpcTraceService::StopTrace(grpc::ServerContext*, const pb::StopTraceRequest* request,
                                         pb::StopTraceResponse* response) {
  return answer(traces_.stop(request->id()), *response->mutable_trace());
}

grpc::Status GrpcTraceService::ListTraces(grpc::ServerContext*, const pb::ListTracesRequest*,
                                          pb::ListTracesResponse* response) {
  *response = traces_.list();
  return grpc::Status::OK;
}

}  // namespace memprofd
