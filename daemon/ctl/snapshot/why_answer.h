// SPDX-License-Identifier: Apache-2.0
// How commands print answers from a heap snapshot. memprofctl why and memprofctl snapshot why give
// the same answer; only the source of the snapshot differs.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/ctl/commands.h"
#include "daemon/ctl/output.h"
#include "daemon/ctl/render/render_json.h"
#include "daemon/ctl/snapshot/snapshot_text.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd::ctl {

// Selects the part of an answer that the options request.
HeapDumpView snapshot_view(const Options& options);
// Writes the message as JSON, or as text.
template <typename Answer>
absl::Status write_answer(const Answer& answer,
                          std::string (*text)(const Answer&, const HeapDumpView&),
                          const Options& options) {
  return write_result(options.json() ? numeric_json(answer) : text(answer, snapshot_view(options)),
                      options.out);
}
// The frames by which the options name sites.
SiteFrame site_frame(const Options& options);
// Writes what keeps the memory of sites alive that match the options' pattern. source: for
// messages, the file or process of the image; list_sites: the command that lists existing sites.
// kNotFound: no sampled block has such a site. kFailedPrecondition: there is no sampled block.
absl::Status answer_why(const HeapImage& image, const Options& options, const std::string& source,
                        const std::string& list_sites);

}  // namespace memprofd::ctl
