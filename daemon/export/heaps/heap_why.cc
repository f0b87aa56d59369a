// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/heap_why.h"

#include "absl/strings/str_cat.h"
#include "daemon/query/frame_filter.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

namespace pb = ::memprof::v1;

absl::Status check_site_pattern(const std::string& pattern) {
  return Patterns::compile("site", {pattern}).status();
}

absl::StatusOr<std::vector<bool>> sites_matching(const HeapImage& image,
                                                 const std::string& pattern) {
  ASSIGN_OR_RETURN(const Patterns patterns, Patterns::compile("site", {pattern}));
  std::vector<bool> by_location;
  for (const Location& location : image.locations) {
    by_location.push_back(patterns.found_in(location) == patterns.all());
  }
  std::vector<bool> matching;
  for (const auto& frames : image.sites) {
    bool is_found = patterns.empty();
    for (const std::uint32_t frame : frames) is_found = is_found || by_location[frame];
    matching.push_back(is_found);
  }
  return matching;
}

pb::ListSitesRequest live_sites_request(int pid, const std::string& pattern) {
  pb::ListSitesRequest request;
  request.set_pid(pid);
  request.set_order(pb::MEASURE_LIVE);
  request.set_limit(1);
  request.mutable_filter()->add_require(pattern);
  return request;
}

absl::Status check_live_sites(const pb::ListSitesResponse& answer, const std::string& pattern,
                              const std::string& list_sites) {
  if (answer.target().mode() == "observe") return absl::OkStatus();
  if (!answer.sites().empty() && answer.sites(0).live_objects() > 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no living sampled block of pid ", answer.target().pid(),
                                          " has a callstack that matches \"", pattern, "\"; `",
                                          list_sites, "` lists sites"));
}

}  // namespace memprofd
