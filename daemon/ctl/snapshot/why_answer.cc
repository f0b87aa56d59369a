// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/why_answer.h"

#include <vector>

#include "daemon/ctl/output.h"
#include "daemon/ctl/snapshot/snapshot_json.h"
#include "daemon/query/frame_filter.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
namespace {

// By site, whether the pattern is found in one of its frames.
absl::StatusOr<std::vector<bool>> matching_sites(const HeapImage& image,
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

}  // namespace

SnapshotView snapshot_view(const Options& options) {
  return {.limit = options.heap_limit, .style = options.out.empty() ? stdout_style() : Style{}};
}

absl::Status check_site_pattern(const std::string& pattern) {
  return Patterns::compile("site", {pattern}).status();
}

absl::Status answer_why(const HeapImage& image, const Options& options, const std::string& source,
                        const std::string& list_sites) {
  if (image.sampled.empty()) {
    return absl::FailedPreconditionError(
        source + " has no sampled block: what was allocated before sampling began has " +
        "no site, and nothing sampled since was alive; take another one later");
  }
  ASSIGN_OR_RETURN(const std::vector<bool> wanted, matching_sites(image, options.heap_site));
  const Why why(image, wanted);
  if (why.sites().empty()) {
    return absl::NotFoundError("no sampled block's callstack matches \"" + options.heap_site +
                               "\"; " + list_sites + " lists sites");
  }
  const SnapshotView view = snapshot_view(options);
  return write_result(
      options.json() ? why_json(image.info, why, view) : why_text(image.info, why, view),
      options.out);
}

}  // namespace memprofd::ctl
