// SPDX-License-Identifier: Apache-2.0
// What keeps the memory of allocation sites alive: of a snapshot that is there, or of one that is
// taken for it.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/export/api/control_service.h"
#include "daemon/export/api/query_service.h"
#include "daemon/snapshot/heap_image.h"
#include "daemon/util/stop_signal.h"

namespace memprofd {

// kInvalidArgument: it is no pattern of a site.
absl::Status check_site_pattern(const std::string& pattern);
// By site of the image, whether the pattern is found in one of its frames.
absl::StatusOr<std::vector<bool>> sites_matching(const HeapImage& image,
                                                 const std::string& pattern);

// Whether anything of such a site is alive is asked before the program is stopped.
::memprof::v1::ListSitesRequest live_sites_request(int pid, const std::string& pattern);
// kNotFound: nothing is. In observe mode that is not known, and the taking says that none is taken.
absl::Status check_live_sites(const ::memprof::v1::ListSitesResponse& answer,
                              const std::string& pattern);

// Takes snapshots and answers from them, within memprofd: the image of a heap takes memory there.
class HeapWhy {
 public:
  // Blocks of a heap, about 40 bytes each.
  static constexpr std::uint64_t kMostBlocks = 10'000'000;

  // All must outlive this.
  HeapWhy(ControlService& control, QueryService& queries, StopSignal& stop)
      : control_(control), queries_(queries), stop_(stop) {}

  // The JSON of memprofctl why. Errors as of taking one; kNotFound: no such site has anything
  // alive; kResourceExhausted: the heap has too many blocks, or another one is being looked at.
  absl::StatusOr<std::string> answer(const ::memprof::v1::AskWhyRequest& request);

 private:
  absl::StatusOr<HeapImage> take(const ::memprof::v1::AskWhyRequest& request);

  ControlService& control_;
  QueryService& queries_;
  StopSignal& stop_;
  std::mutex one_at_a_time_;
};

}  // namespace memprofd
