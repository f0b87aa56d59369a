// SPDX-License-Identifier: Apache-2.0
// The methods of memprof.v1.Heaps. Slow to compile: include it in grpc_server.cc only.
#pragma once

#include "daemon/export/api/control_service.h"
#include "daemon/export/grpc/grpc_access.h"
#include "memprof/v1/heaps.grpc.pb.h"

namespace memprofd {

class GrpcHeapsService final : public ::memprof::v1::Heaps::Service {
 public:
  // Both must outlive this.
  GrpcHeapsService(ProfilerService& service, const GrpcAccess& access)
      : control_(service), access_(access) {}

  grpc::Status DescribeHeap(grpc::ServerContext* context,
                            const ::memprof::v1::DescribeHeapRequest* request,
                            ::memprof::v1::DescribeHeapResponse* response) override;

 private:
  ControlService control_;
  const GrpcAccess& access_;
};

}  // namespace memprofd
