// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/heap_why.h"

#include "absl/strings/str_cat.h"
#include "daemon/export/api/heap_json.h"
#include "daemon/export/api/request_checks.h"
#include "daemon/query/frame_filter.h"
#include "daemon/snapshot/answers/why.h"
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

absl::Status check_live_sites(const pb::ListSitesResponse& answer, const std::string& pattern) {
  if (answer.target().mode() == "observe") return absl::OkStatus();
  if (!answer.sites().empty() && answer.sites(0).live_objects() > 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no living sampled block of pid ", answer.target().pid(),
                                          " has a callstack that matches \"", pattern,
                                          "\"; memprofctl sites lists sites"));
}

absl::StatusOr<std::string> HeapWhy::answer(const pb::AskWhyRequest& request) {
  RETURN_IF_ERROR(check_site_pattern(request.site()));
  ASSIGN_OR_RETURN(const pb::ListSitesResponse sites,
                   queries_.list_sites(live_sites_request(request.pid(), request.site())));
  RETURN_IF_ERROR(check_live_sites(sites, request.site()));
  pb::TakeSnapshotRequest asked;
  asked.set_pid(request.pid());
  asked.set_max_pause_seconds(request.max_pause_seconds());
  std::string answer;
  RETURN_IF_ERROR(heaps_.look_at_taken(
      control_, asked, process_of(asked), [this] { return stop_.wait({}); },
      [&](const HeapImage& image) -> absl::Status {
        ASSIGN_OR_RETURN(answer, answer_from(image, request));
        return absl::OkStatus();
      }));
  return answer;
}

absl::StatusOr<std::string> HeapWhy::answer_from(const HeapImage& image,
                                                 const pb::AskWhyRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<bool> wanted, sites_matching(image, request.site()));
  const Why why(image, wanted);
  if (why.sites().empty()) {
    return absl::NotFoundError(absl::StrCat("nothing of \"", request.site(),
                                            "\" was in the heap of pid ", request.pid(),
                                            " any longer; ask again"));
  }
  TreeLimits limits;
  if (request.limit() != 0) limits.limit = request.limit();
  return why_json(image.info, why, limits);
}

}  // namespace memprofd
