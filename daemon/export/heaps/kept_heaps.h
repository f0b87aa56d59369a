// SPDX-License-Identifier: Apache-2.0
// Stored heap snapshots: their list, storing another one, and comparisons, as the API's messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "daemon/export/api/control_service.h"
#include "daemon/export/api/service.h"
#include "daemon/export/heaps/heap_analyser.h"
#include "daemon/export/heaps/heap_answers.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/util/status_macros.h"
#include "memprof/v1/heaps.pb.h"

namespace memprofd {

// Thread-safe.
class KeptHeaps {
 public:
  // Both must outlive this.
  KeptHeaps(HeapAnalyser& heaps, ProfilerService& service) : heaps_(heaps), service_(service) {}

  ::memprof::v1::ListHeapsResponse list(const ::memprof::v1::ListHeapsRequest& request) const;
  // Censuses of the heaps that have been counted. kInvalidArgument: too many classes.
  absl::StatusOr<::memprof::v1::ListCensusesResponse> censuses(
      const ::memprof::v1::ListCensusesRequest& request) const;
  // Returns the errors of taking a snapshot and of HeapFiles. waits: whether a client still waits.
  absl::StatusOr<::memprof::v1::KeepHeapResponse> keep(
      const ::memprof::v1::KeepHeapRequest& request, const std::function<bool()>& waits);
  // Returns the errors of HeapAnalyser::analyse_kept().
  absl::StatusOr<::memprof::v1::HeapDiff> compare(
      const ::memprof::v1::CompareHeapsRequest& request);
  // Answers from one stored snapshot: make(image, paths, rows of each table).
  template <typename Request, typename Answer>
  absl::StatusOr<Answer> answer(const Request& request,
                                Answer (*make)(const HeapImage&, const ShortestPaths&,
                                               std::size_t)) {
    Answer out;
    RETURN_IF_ERROR(heaps_.analyse_kept({request.name()}, [&](HeapImage& image) {
      out = make(image, ShortestPaths(image), rows_of(request.limit()));
      return absl::OkStatus();
    }));
    out.mutable_snapshot()->set_name(request.name());
    return out;
  }

 private:
  HeapAnalyser& heaps_;
  ProfilerService& service_;
};

}  // namespace memprofd
