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

}  // namespace memprofd
