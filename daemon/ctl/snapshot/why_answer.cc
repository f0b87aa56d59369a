// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/why_answer.h"

#include <vector>

#include "daemon/export/heaps/heap_answers.h"
#include "daemon/export/heaps/heap_why.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {
HeapDumpView snapshot_view(const Options& options) {
  return {.limit = options.heap_limit, .style = options.out.empty() ? stdout_style() : Style{}};
}

SiteFrame site_frame(const Options& options) {
  const pb::Frames asked = options.query.filter.frames();
  const pb::Frames frames = asked != pb::FRAMES_UNSPECIFIED ? asked : options.frames();
  return frames == pb::FRAMES_APPLICATION ? SiteFrame::kApplication : SiteFrame::kInnermost;
}

absl::Status answer_why(const HeapImage& image, const Options& options, const std::string& source,
                        const std::string& list_sites) {
  if (image.sampled.empty()) {
    return absl::FailedPreconditionError(
        source +
        " has no sampled block: blocks from before the attach have no site, and no later " +
        "one was alive; take another snapshot later");
  }
  ASSIGN_OR_RETURN(const std::vector<bool> wanted, sites_matching(image, options.heap_site));
  const Why why(image, wanted);
  if (why.sites().empty()) {
    return absl::NotFoundError("no sampled block's callstack matches \"" + options.heap_site +
                               "\"; " + list_sites + " lists sites");
  }
  return write_answer(why_answer(image.info, why, snapshot_view(options).tree()), &why_text,
                      options);
}

}  // namespace memprofd::ctl
