// SPDX-License-Identifier: Apache-2.0
// The methods of memprof.v1.Profiler. Slow to compile: include it in
// grpc_server.cc only.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "daemon/export/api/control_service.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/api/server_info.h"
#include "daemon/export/api/service.h"
#include "daemon/export/clients/answer_turns.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/grpc_queues.h"
#include "daemon/export/grpc/heap_stream.h"
#include "memprof/v1/profiler.grpc.pb.h"

namespace memprofd {

class GrpcService final : public ::memprof::v1::Profiler::Service {
 public:
  // All must outlive this.
  GrpcService(ProfilerService& service, const GrpcAccess& access, GrpcQueues& queues,
              HeapStream& heap_stream, std::shared_ptr<AnswerPages> answers, ServerFacts facts)
      : service_(service),
        access_(access),
        queues_(queues),
        heap_stream_(heap_stream),
        control_(service),
        queries_(service, std::move(answers), [&service] { return service.discovered(); }),
        facts_(std::move(facts)) {}

  grpc::Status ListTargets(grpc::ServerContext* context,
                           const ::memprof::v1::ListTargetsRequest* request,
                           ::memprof::v1::ListTargetsResponse* response) override;
  grpc::Status Attach(grpc::ServerContext* context, const ::memprof::v1::AttachRequest* request,
                      ::memprof::v1::AttachResponse* response) override;
  grpc::Status Detach(grpc::ServerContext* context, const ::memprof::v1::DetachRequest* request,
                      ::memprof::v1::DetachResponse* response) override;
  grpc::Status SetRate(grpc::ServerContext* context, const ::memprof::v1::SetRateRequest* request,
                       ::memprof::v1::SetRateResponse* response) override;
  grpc::Status ListSites(grpc::ServerContext* context,
                         const ::memprof::v1::ListSitesRequest* request,
                         ::memprof::v1::ListSitesResponse* response) override;
  grpc::Status WatchSites(grpc::ServerContext* context,
                          const ::memprof::v1::WatchSitesRequest* request,
                          grpc::ServerWriter<::memprof::v1::ListSitesResponse>* writer) override;
  grpc::Status StreamEvents(
      grpc::ServerContext* context, const ::memprof::v1::StreamEventsRequest* request,
      grpc::ServerWriter<::memprof::v1::StreamEventsResponse>* writer) override;
  grpc::Status TakeSnapshot(
      grpc::ServerContext* context, const ::memprof::v1::TakeSnapshotRequest* request,
      grpc::ServerWriter<::memprof::v1::TakeSnapshotResponse>* writer) override;
  grpc::Status DiffSites(grpc::ServerContext* context,
                         const ::memprof::v1::DiffSitesRequest* request,
                         ::memprof::v1::DiffSitesResponse* response) override;
  grpc::Status ListCallers(grpc::ServerContext* context,
                           const ::memprof::v1::ListCallersRequest* request,
                           ::memprof::v1::ListCallersResponse* response) override;
  grpc::Status ListLeaks(grpc::ServerContext* context,
                         const ::memprof::v1::ListLeaksRequest* request,
                         ::memprof::v1::ListLeaksResponse* response) override;
  grpc::Status GetHistory(grpc::ServerContext* context,
                          const ::memprof::v1::GetHistoryRequest* request,
                          ::memprof::v1::GetHistoryResponse* response) override;
  grpc::Status GetProfile(grpc::ServerContext* context,
                          const ::memprof::v1::GetProfileRequest* request,
                          ::memprof::v1::GetProfileResponse* response) override;
  grpc::Status StreamProfile(
      grpc::ServerContext* context, const ::memprof::v1::GetProfileRequest* request,
      grpc::ServerWriter<::memprof::v1::StreamProfileResponse>* writer) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context,
                             const ::memprof::v1::GetServerInfoRequest* request,
                             ::memprof::v1::GetServerInfoResponse* response) override;
  grpc::Status Diagnose(grpc::ServerContext* context, const ::memprof::v1::DiagnoseRequest* request,
                        ::memprof::v1::DiagnoseResponse* response) override;

 private:
  // Runs a request of a caller who has the right, and logs it.
  template <typename Request, typename Response>
  grpc::Status command(const grpc::ServerContext& context, const Request& request,
                       absl::StatusOr<Response> (ControlService::*run)(const Request&,
                                                                       const AskedProcess&),
                       Response& response);
  template <typename Request, typename Response>
  grpc::Status answer(const grpc::ServerContext& context, AnswerTurns& turns,
                      absl::StatusOr<Response> (QueryService::*ask)(const Request&),
                      const Request& request, Response& response);
  absl::StatusOr<::memprof::v1::GetProfileResponse> profile(
      const grpc::ServerContext& context, const ::memprof::v1::GetProfileRequest& request);

  ProfilerService& service_;
  const GrpcAccess& access_;
  GrpcQueues& queues_;
  HeapStream& heap_stream_;
  ControlService control_;
  QueryService queries_;
  const ServerFacts facts_;
};

}  // namespace memprofd
