// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_trace_service.h"

#include "absl/strings/str_cat.h"
#include "daemon/export/api/audit.h"
#include "daemon/export/grpc/grpc_status.h"

namespace memprofd {

namespace pb = ::memprof::v1;

grpc::Status GrpcTraceService::Record(grpc::ServerContext* context,
                                      const pb::RecordRequest* request,
                                      grpc::ServerWriter<pb::RecordResponse>* writer) {
  const auto slot = streams_.take(*context);
  if (!slot) return no_stream_left();
  const absl::StatusOr<std::unique_ptr<TraceStream>> stream = traces_.record(request->options());
  audit(request->options().pid(), "record", GrpcAccess::caller(*context).name, stream.status());
  if (!stream.ok()) return to_grpc(stream.status());
  const auto send = [&](const pb::RecordResponse& message) {
    return slot->write([&] { return writer->Write(message); });
  };
  while (!context->IsCancelled() && (*stream)->step(send)) {
  }
  return grpc::Status::OK;
}

grpc::Status GrpcTraceService::EndRecording(grpc::ServerContext* context,
                                            const pb::EndRecordingRequest* request,
                                            pb::EndRecordingResponse*) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  return to_grpc(traces_.end_recording(request->recording()));
}

grpc::Status GrpcTraceService::StartTrace(grpc::ServerContext* context,
                                          const pb::StartTraceRequest* request,
                                          pb::StartTraceResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const int pid = request->options().pid();
  const auto process = access_.process_for(caller, pid, request->options().process_start_ticks());
  pb::TraceOptions options = request->options();
  if (process.ok()) options.set_process_start_ticks(process->start_time_ticks);
  auto trace = process.ok() ? traces_.start(options, process->user) : process.status();
  audit(pid, "start a trace", caller.name, trace.status());
  return grpc_answer(std::move(trace), *response->mutable_trace());
}

grpc::Status GrpcTraceService::StopTrace(grpc::ServerContext* context,
                                         const pb::StopTraceRequest* request,
                                         pb::StopTraceResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  const GrpcCaller caller = GrpcAccess::caller(*context);
  const int pid = traces_.pid_of(request->id());
  const auto user = access_.user_for(caller);
  const absl::Status allowed = user ? absl::OkStatus() : access_.check_control(caller);
  auto trace = allowed.ok() ? traces_.stop(request->id(), user) : allowed;
  audit(pid, absl::StrCat("stop trace ", request->id()), caller.name, trace.status());
  return grpc_answer(std::move(trace), *response->mutable_trace());
}

grpc::Status GrpcTraceService::ListTraces(grpc::ServerContext* context,
                                          const pb::ListTracesRequest*,
                                          pb::ListTracesResponse* response) {
  const auto call = access_.begin(*context);
  if (!call.ok()) return to_grpc(call.status());
  *response = traces_.list();
  return grpc::Status::OK;
}

}  // namespace memprofd
