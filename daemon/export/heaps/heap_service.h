// SPDX-License-Identifier: Apache-2.0
// Contents of a target's heap and what keeps them alive, as the API's messages.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "daemon/export/api/control_service.h"
#include "daemon/export/api/inner_heap.h"
#include "daemon/snapshot/answers/image_census.h"
#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_image.h"
#include "memprof/v1/heaps.pb.h"

namespace memprofd {

::memprof::v1::HeapCount to_proto(const BlockCount& count);
::memprof::v1::HeapTypes to_proto(const TypedCount& types);

// The heap is there; its image is of no use afterwards.
::memprof::v1::DescribeHeapResponse describe_heap(
    HeapImage& image, const ::memprof::v1::DescribeHeapRequest& request);

// Takes a snapshot for the answer; waits: whether a client still waits. Errors as of
// InnerHeaps::look_at_taken().
absl::StatusOr<::memprof::v1::DescribeHeapResponse> describe_heap(
    InnerHeaps& heaps, ControlService& control, const ::memprof::v1::DescribeHeapRequest& request,
    const AskedProcess& process, const std::function<bool()>& waits);

}  // namespace memprofd
