// SPDX-License-Identifier: Apache-2.0
// The methods of memprof.v1.Heaps. Slow to compile: include it in grpc_server.cc only.
#pragma once

#include "daemon/export/api/control_service.h"
#include "daemon/export/api/inner_heap.h"
#include "daemon/export/grpc/grpc_access.h"
#include "daemon/export/grpc/heap_stream.h"
#include "daemon/export/heaps/kept_heaps.h"
#include "memprof/v1/heaps.grpc.pb.h"

namespace memprofd {

class GrpcHeapsService final : public ::memprof::v1::Heaps::Service {
 public:
  // All must outlive this.
  GrpcHeapsService(ProfilerService& service, const GrpcAccess& access, InnerHeaps& heaps,
                   HeapStream& heap_stream)
      : control_(service),
        access_(access),
        heaps_(heaps),
        kept_(heaps, service),
        heap_stream_(heap_stream) {}

  grpc::Status DescribeHeap(grpc::ServerContext* context,
                            const ::memprof::v1::DescribeHeapRequest* request,
                            ::memprof::v1::DescribeHeapResponse* response) override;
  grpc::Status TakeHeap(grpc::ServerContext* context, const ::memprof::v1::TakeHeapRequest* request,
                        grpc::ServerWriter<::memprof::v1::TakeSnapshotResponse>* writer) override;
  grpc::Status ListHeaps(grpc::ServerContext* context,
                         const ::memprof::v1::ListHeapsRequest* request,
                         ::memprof::v1::ListHeapsResponse* response) override;
  grpc::Status KeepHeap(grpc::ServerContext* context, const ::memprof::v1::KeepHeapRequest* request,
                        ::memprof::v1::KeepHeapResponse* response) override;
  grpc::Status ListCensuses(grpc::ServerContext* context,
                            const ::memprof::v1::ListCensusesRequest* request,
                            ::memprof::v1::ListCensusesResponse* response) override;
  grpc::Status CompareHeaps(grpc::ServerContext* context,
                            const ::memprof::v1::CompareHeapsRequest* request,
                            ::memprof::v1::CompareHeapsResponse* response) override;
  grpc::Status FindWaste(grpc::ServerContext* context,
                         const ::memprof::v1::FindWasteRequest* request,
                         ::memprof::v1::FindWasteResponse* response) override;
  grpc::Status FindGarbage(grpc::ServerContext* context,
                           const ::memprof::v1::FindGarbageRequest* request,
                           ::memprof::v1::FindGarbageResponse* response) override;

 private:
  ControlService control_;
  const GrpcAccess& access_;
  InnerHeaps& heaps_;
  KeptHeaps kept_;
  HeapStream& heap_stream_;
};

}  // namespace memprofd
