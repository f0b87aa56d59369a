// The methods of memprof.v1.Profiler. Slow to compile: include it in
// grpc_server.cc only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "daemon/export/service.h"
#include "memprof/v1/profiler.grpc.pb.h"

namespace memprofd {

class GrpcService final : public ::memprof::v1::Profiler::Service {
 public:
  explicit GrpcService(ProfilerService& service) : service_(service) {}
  // Ends all streams soon.
  void stop();

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
  grpc::Status Diagnose(grpc::ServerContext* context, const ::memprof::v1::DiagnoseRequest* request,
                        ::memprof::v1::DiagnoseResponse* response) override;

 private:
  // False when the stream should end.
  bool wait(grpc::ServerContext& context, std::chrono::steady_clock::time_point until);

  ProfilerService& service_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;  // guarded by mutex_
};

}  // namespace memprofd
