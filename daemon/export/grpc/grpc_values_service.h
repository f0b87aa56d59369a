// SPDX-License-Identifier: Apache-2.0
// The methods of memprof.v1.Values. Slow to compile: include it in grpc_server.cc only.
#pragma once

#include "daemon/export/api/values_service.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/stream_slots.h"
#include "daemon/util/stop_signal.h"
#include "memprof/v1/values.grpc.pb.h"

namespace memprofd {

class GrpcValuesService final : public ::memprof::v1::Values::Service {
 public:
  // All must outlive this.
  GrpcValuesService(ProfilerService& service, const GrpcAccess& access, StreamSlots& streams)
      : service_(service), values_(service), access_(access), streams_(streams) {}

  // Ends all streams, soon.
  void stop() { stop_.stop(); }

  grpc::Status ListValues(grpc::ServerContext* context,
                          const ::memprof::v1::ListValuesRequest* request,
                          ::memprof::v1::ListValuesResponse* response) override;

  grpc::Status WatchValues(grpc::ServerContext* context,
                           const ::memprof::v1::WatchValuesRequest* request,
                           grpc::ServerWriter<::memprof::v1::WatchValuesResponse>* writer) override;

  grpc::Status Resume(grpc::ServerContext* context, const ::memprof::v1::ResumeRequest* request,
                      ::memprof::v1::ResumeResponse* response) override;

  grpc::Status Adjust(grpc::ServerContext* context, const ::memprof::v1::AdjustRequest* request,
                      ::memprof::v1::AdjustResponse* response) override;

  grpc::Status KeepValues(grpc::ServerContext* context,
                          const ::memprof::v1::KeepValuesRequest* request,
                          ::memprof::v1::KeepValuesResponse* response) override;

  grpc::Status Ask(grpc::ServerContext* context, const ::memprof::v1::AskRequest* request,
                   ::memprof::v1::AskResponse* response) override;

  grpc::Status GetValueHistory(grpc::ServerContext* context,
                               const ::memprof::v1::GetValueHistoryRequest* request,
                               ::memprof::v1::GetValueHistoryResponse* response) override;

 private:
  ProfilerService& service_;
  ValuesService values_;
  const GrpcAccess& access_;
  StreamSlots& streams_;
  StopSignal stop_;
};

}  // namespace memprofd
