// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/heap_why.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/heap_json.h"
#include "daemon/query/frame_filter.h"
#include "daemon/snapshot/answers/why.h"
#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/util/fd.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

// A file in memory.
bool append(const UniqueFd& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

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
  request.set_no_callstacks(true);
  request.mutable_filter()->add_require(pattern);
  return request;
}

absl::Status check_live_sites(const pb::ListSitesResponse& answer, const std::string& pattern) {
  if (answer.target().mode() == "observe") return absl::OkStatus();
  if (!answer.sites().empty() && answer.sites(0).live_objects() > 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("nothing that was sampled in pid ", answer.target().pid(),
                                          " and is alive has a callstack that matches \"", pattern,
                                          "\"; memprofctl sites lists sites"));
}

absl::StatusOr<HeapImage> HeapWhy::take(const pb::AskWhyRequest& request) {
  const UniqueFd file(::memfd_create("memprofd-heap", MFD_CLOEXEC));
  if (!file) return absl::ResourceExhaustedError("no memory for the snapshot's file");
  pb::TakeSnapshotRequest asked;
  asked.set_pid(request.pid());
  asked.set_max_pause_seconds(request.max_pause_seconds());
  const HeapClient client{.take = [&](std::string_view bytes) { return append(file, bytes); },
                          .waits = [this] { return stop_.wait({}); }};
  ASSIGN_OR_RETURN(const pb::SnapshotSummary summary, control_.take_snapshot(asked, client));
  if (summary.blocks() > kMostBlocks) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the heap of pid ", request.pid(), " has ", format_count(summary.blocks()),
        " blocks, more than memprofd looks at within itself; ask memprofctl why --pid ",
        request.pid()));
  }
  return read_heap_image(absl::StrCat("/proc/self/fd/", file.get()));
}

absl::StatusOr<std::string> HeapWhy::answer(const pb::AskWhyRequest& request) {
  RETURN_IF_ERROR(check_site_pattern(request.site()));
  ASSIGN_OR_RETURN(const pb::ListSitesResponse sites,
                   queries_.list_sites(live_sites_request(request.pid(), request.site())));
  RETURN_IF_ERROR(check_live_sites(sites, request.site()));
  const std::unique_lock alone(one_at_a_time_, std::try_to_lock);
  if (!alone.owns_lock()) {
    return absl::ResourceExhaustedError(
        "another snapshot is being looked at, and memprofd has memory for one; ask again later");
  }
  ASSIGN_OR_RETURN(const HeapImage image, take(request));
  ASSIGN_OR_RETURN(const std::vector<bool> wanted, sites_matching(image, request.site()));
  const Why why(image, wanted);
  if (why.sites().empty()) {
    return absl::NotFoundError(absl::StrCat("nothing of \"", request.site(),
                                            "\" was in the heap of pid ", request.pid(),
                                            " any more; ask again"));
  }
  TreeLimits limits;
  if (request.limit() != 0) limits.limit = request.limit();
  return why_json(image.info, why, limits);
}

}  // namespace memprofd
