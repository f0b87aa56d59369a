// SPDX-License-Identifier: Apache-2.0
// Answers about a target's heap, from a snapshot that is taken for the answer and kept only until
// it is computed.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "daemon/export/api/control_service.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/heaps/heap_analyser.h"
#include "daemon/snapshot/heap_image.h"
#include "memprof/v1/heaps.pb.h"

namespace memprofd {

// The image cannot be used afterwards.
::memprof::v1::DescribeHeapResponse describe_heap(
    HeapImage& image, const ::memprof::v1::DescribeHeapRequest& request);

class HeapService {
 public:
  // Returns whether the client still waits for the answer.
  using Waits = std::function<bool()>;

  // All must outlive this.
  HeapService(HeapAnalyser& heaps, ControlService& control, QueryService& queries)
      : heaps_(heaps), control_(control), queries_(queries) {}

  // Returns the errors of HeapAnalyser::analyse_taken().
  absl::StatusOr<::memprof::v1::DescribeHeapResponse> describe(
      const ::memprof::v1::DescribeHeapRequest& request, const RequestedProcess& process,
      const Waits& waits);
  // kNotFound also means that no block of such a site is alive; then the target is not paused.
  absl::StatusOr<::memprof::v1::HeapWhy> why(const ::memprof::v1::WhyRequest& request,
                                             const RequestedProcess& process, const Waits& waits);

 private:
  HeapAnalyser& heaps_;
  ControlService& control_;
  QueryService& queries_;
};

}  // namespace memprofd
