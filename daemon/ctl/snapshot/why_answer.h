// SPDX-License-Identifier: Apache-2.0
// How commands print answers from a heap snapshot. memprofctl why and memprofctl snapshot why give
// the same answer; only the source of the snapshot differs.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/render/render_json.h"
#include "daemon/ctl/snapshot/snapshot_text.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd::ctl {

// The shown part of an answer with this --limit.
HeapDumpView snapshot_view(const Options& options, std::size_t limit);
// Writes the message as JSON, or as text with this --limit.
template <typename Answer>
absl::Status write_answer(const Answer& answer,
                          std::string (*text)(const Answer&, const HeapDumpView&),
                          const Options& options, std::size_t limit) {
  return write_result(
      options.json() ? numeric_json(answer) : text(answer, snapshot_view(options, limit)),
      options.out);
}
// The frames by which the options name sites.
SiteFrame site_frame(const Options& options);

struct WhyQuestion {
  std::string site;        // a pattern
  std::string source;      // for messages: the file or process of the image
  std::string list_sites;  // the command that lists existing sites
};
// Writes what keeps the memory of matching sites alive. kNotFound: no sampled block has such a
// site. kFailedPrecondition: there is no sampled block.
absl::Status answer_why(const HeapImage& image, const WhyQuestion& question, const Options& options,
                        std::size_t limit);

}  // namespace memprofd::ctl
