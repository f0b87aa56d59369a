// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/why_answer.h"

#include <vector>

#include "daemon/export/heaps/heap_answers.h"
#include "daemon/export/heaps/heap_why.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {

HeapDumpView snapshot_view(const Options& options, std::size_t limit) {
  return {.limit = limit, .style = options.out.empty() ? stdout_style() : Style{}};
}

SiteFrame site_frame(const Options& options) {
  const pb::Frames asked = options.query.filter.frames();
  const pb::Frames frames = asked != pb::FRAMES_UNSPECIFIED ? asked : options.frames();
  return frames == pb::FRAMES_APPLICATION ? SiteFrame::kApplication : SiteFrame::kInnermost;
}

absl::Status answer_why(const HeapImage& image, const WhyQuestion& question, const Options& options,
                        std::size_t limit) {
  if (image.sampled.empty()) {
    return absl::FailedPreconditionError(
        question.source +
        " has no sampled block: blocks from before the attach have no site, and no later " +
        "one was alive; take another snapshot later");
  }
  ASSIGN_OR_RETURN(const std::vector<bool> wanted, sites_matching(image, question.site));
  const Why why(image, wanted);
  if (why.sites().empty()) {
    return absl::NotFoundError("no sampled block's callstack matches \"" + question.site + "\"; " +
                               question.list_sites + " lists sites");
  }
  return write_answer(why_answer(image.info, why, snapshot_view(options, limit).tree()), &why_text,
                      options, limit);
}

}  // namespace memprofd::ctl
