// SPDX-License-Identifier: Apache-2.0
// Finds what keeps the memory of allocation sites alive, in a stored snapshot or in one that is
// taken for the answer.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/api/control_service.h"
#include "daemon/export/api/inner_heap.h"
#include "daemon/export/api/query_service.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// kInvalidArgument: it is no pattern of a site.
absl::Status check_site_pattern(const std::string& pattern);
// For each site of the image, whether the pattern matches one of its frames.
absl::StatusOr<std::vector<bool>> sites_matching(const HeapImage& image,
                                                 const std::string& pattern);

// Request that tells whether such a site has live memory, sent before the program is paused.
::memprof::v1::ListSitesRequest live_sites_request(int pid, const std::string& pattern);
// kNotFound: no memory of the site is live. In observe mode that is unknown, and taking the
// snapshot fails with the reason.
absl::Status check_live_sites(const ::memprof::v1::ListSitesResponse& answer,
                              const std::string& pattern);

// Takes snapshots and answers from them, within memprofd: the image of a heap takes memory there.
class HeapWhy {
 public:
  // All must outlive this.
  HeapWhy(InnerHeaps& heaps, ControlService& control, QueryService& queries, StopSignal& stop)
      : heaps_(heaps), control_(control), queries_(queries), stop_(stop) {}

  // The JSON of memprofctl why. Errors as of InnerHeaps::look_at_taken(); kNotFound: no such site
  // has anything alive.
  absl::StatusOr<std::string> answer(const ::memprof::v1::AskWhyRequest& request);

 private:
  static absl::StatusOr<std::string> answer_from(const HeapImage& image,
                                                 const ::memprof::v1::AskWhyRequest& request);

  InnerHeaps& heaps_;
  ControlService& control_;
  QueryService& queries_;
  StopSignal& stop_;
};

}  // namespace memprofd
