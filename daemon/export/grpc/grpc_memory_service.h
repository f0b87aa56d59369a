// SPDX-License-Identifier: Apache-2.0
// The methods of memprof.v1.Memory. Slow to compile: include it in grpc_server.cc only.
#pragma once

#include "daemon/export/api/service.h"
#include "daemon/export/grpc/grpc_access.h"
#include "memprof/v1/rss.grpc.pb.h"

namespace memprofd {

class GrpcMemoryService final : public ::memprof::v1::Memory::Service {
 public:
  // Both must outlive this.
  GrpcMemoryService(ProfilerService& service, const GrpcAccess& access)
      : service_(service), access_(access) {}

  // For users who may control the program, a target or not, because it is inspected.
  grpc::Status GetRss(grpc::ServerContext* context, const ::memprof::v1::GetRssRequest* request,
                      ::memprof::v1::GetRssResponse* response) override;

 private:
  ProfilerService& service_;
  const GrpcAccess& access_;
};

}  // namespace memprofd
