// SPDX-License-Identifier: Apache-2.0
// Allocation sites by pattern, as questions about a heap select them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/snapshot/heap_image.h"
#include "memprof/v1/profiler.pb.h"

namespace memprofd {

// kInvalidArgument: the pattern is invalid.
absl::Status check_site_pattern(const std::string& pattern);
// For each site of the image, whether the pattern matches one of its frames.
absl::StatusOr<std::vector<bool>> sites_matching(const HeapImage& image,
                                                 const std::string& pattern);

// The request that finds out whether such a site has live memory, sent before the program is
// paused.
::memprof::v1::ListSitesRequest live_sites_request(int pid, const std::string& pattern);
// kNotFound: no memory of the site is live. In observe mode that is unknown, and taking the
// snapshot fails with the reason.
absl::Status check_live_sites(const ::memprof::v1::ListSitesResponse& answer,
                              const std::string& pattern,
                              const std::string& list_sites = "memprofctl sites");

}  // namespace memprofd
