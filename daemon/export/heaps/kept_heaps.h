// SPDX-License-Identifier: Apache-2.0
// Stored heap snapshots: their list, storing another one, and comparisons, as the API's messages.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "daemon/export/api/control_service.h"
#include "daemon/export/api/inner_heap.h"
#include "daemon/export/api/service.h"
#include "daemon/snapshot/answers/image_diff.h"
#include "daemon/snapshot/heap_image.h"
#include "memprof/v1/heaps.pb.h"

namespace memprofd {

// Thread-safe.
class KeptHeaps {
 public:
  // Both must outlive this.
  KeptHeaps(InnerHeaps& heaps, ProfilerService& service) : heaps_(heaps), service_(service) {}

  ::memprof::v1::ListHeapsResponse list(const ::memprof::v1::ListHeapsRequest& request) const;
  // Censuses of the heaps that have been counted. kInvalidArgument: too many classes.
  absl::StatusOr<::memprof::v1::ListCensusesResponse> censuses(
      const ::memprof::v1::ListCensusesRequest& request) const;
  // Errors as of taking one and of HeapFiles; waits: whether a client still waits.
  absl::StatusOr<::memprof::v1::KeepHeapResponse> keep(
      const ::memprof::v1::KeepHeapRequest& request, const std::function<bool()>& waits);
  // Errors as of InnerHeaps::look_at_kept().
  absl::StatusOr<::memprof::v1::CompareHeapsResponse> compare(
      const ::memprof::v1::CompareHeapsRequest& request);
  absl::StatusOr<::memprof::v1::FindWasteResponse> find_waste(
      const ::memprof::v1::FindWasteRequest& request);
  absl::StatusOr<::memprof::v1::FindGarbageResponse> find_garbage(
      const ::memprof::v1::FindGarbageRequest& request);

 private:
  InnerHeaps& heaps_;
  ProfilerService& service_;
};

// The heaps are there; the names of the files are left to the caller.
::memprof::v1::CompareHeapsResponse compared(const ImageSummary& base, const ImageSummary& other,
                                             std::uint32_t limit);
::memprof::v1::FindWasteResponse waste_of(const HeapImage& image, std::uint32_t limit);

}  // namespace memprofd
