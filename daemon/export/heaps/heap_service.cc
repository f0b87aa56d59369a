// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/heap_service.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/export/heaps/heap_answers.h"
#include "daemon/export/heaps/heap_why.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

namespace pb = ::memprof::v1;

namespace {

constexpr std::uint32_t kUsualDepth = 3, kMaxDepth = 100;

template <typename Request>
pb::TakeSnapshotRequest snapshot_for(const Request& request) {
  pb::TakeSnapshotRequest out;
  out.set_pid(request.pid());
  out.set_max_pause_seconds(request.max_pause_seconds());
  return out;
}

absl::StatusOr<pb::HeapWhy> why_of(const HeapImage& image, const pb::WhyRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<bool> wanted, sites_matching(image, request.site()));
  const Why why(image, wanted);
  if (why.sites().empty()) {
    return absl::NotFoundError(absl::StrCat("nothing of \"", request.site(),
                                            "\" was in the heap of pid ", request.pid(),
                                            " any longer; ask again"));
  }
  TreeLimits limits;
  if (request.limit() != 0) limits.limit = request.limit();
  return why_answer(image.info, why, limits);
}

}  // namespace

pb::DescribeHeapResponse describe_heap(HeapImage& image, const pb::DescribeHeapRequest& request) {
  const std::size_t limit = rows_of(request.limit());
  const std::uint32_t depth = request.depth() != 0 ? request.depth() : kUsualDepth;
  pb::DescribeHeapResponse out;
  {
    const ShortestPaths paths(image);
    *out.mutable_census() = census_answer(image, paths, limit);
    *out.mutable_garbage() = garbage_answer(image, paths, limit);
  }
  const RetainedTable table = find_retained(image, {.depth = depth});
  *out.mutable_retained() =
      retained_answer(image.info, table, table.children()[0], {.limit = limit});
  return out;
}

absl::StatusOr<pb::DescribeHeapResponse> HeapService::describe(
    const pb::DescribeHeapRequest& request, const RequestedProcess& process, const Waits& waits) {
  if (request.depth() > kMaxDepth) {
    return absl::InvalidArgumentError("bad depth: it is 1 to 100, or 0 for the usual 3");
  }
  pb::DescribeHeapResponse out;
  RETURN_IF_ERROR(
      heaps_.analyse_taken(control_, snapshot_for(request), process, waits, [&](HeapImage& image) {
        out = describe_heap(image, request);
        return absl::OkStatus();
      }));
  return out;
}

absl::StatusOr<pb::HeapWhy> HeapService::why(const pb::WhyRequest& request,
                                             const RequestedProcess& process, const Waits& waits) {
  RETURN_IF_ERROR(check_site_pattern(request.site()));
  ASSIGN_OR_RETURN(const pb::ListSitesResponse sites,
                   queries_.list_sites(live_sites_request(request.pid(), request.site())));
  RETURN_IF_ERROR(check_live_sites(sites, request.site()));
  pb::HeapWhy out;
  RETURN_IF_ERROR(heaps_.analyse_taken(control_, snapshot_for(request), process, waits,
                                       [&](HeapImage& image) -> absl::Status {
                                         ASSIGN_OR_RETURN(out, why_of(image, request));
                                         return absl::OkStatus();
                                       }));
  return out;
}

}  // namespace memprofd
