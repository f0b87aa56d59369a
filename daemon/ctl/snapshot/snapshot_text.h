// SPDX-License-Identifier: Apache-2.0
// Answers from a heap snapshot, as text for people. Names from programs are made printable.
#pragma once

#include <string>
#include <vector>

#include "daemon/ctl/snapshot/snapshot_view.h"
#include "daemon/snapshot/answers/garbage.h"
#include "daemon/snapshot/answers/image_census.h"
#include "daemon/snapshot/answers/image_diff.h"
#include "daemon/snapshot/answers/retained.h"
#include "daemon/snapshot/answers/sampled_sites.h"
#include "daemon/snapshot/answers/waste.h"
#include "daemon/snapshot/answers/why.h"
#include "daemon/snapshot/answers/why_outside.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd::ctl {

// The program, the time, and remarks that a reader needs. All end in a newline.
std::string snapshot_head_text(const ImageInfo& info);
std::string census_text(const ImageInfo& info, const ImageCensus& census,
                        const std::vector<SiteRow>& sites, const SnapshotView& view);
// The rows below some of the table's.
std::string retained_text(const ImageInfo& info, const RetainedTable& table,
                          const std::vector<std::uint32_t>& tops, const SnapshotView& view);
std::string why_text(const ImageInfo& info, const Why& why, const SnapshotView& view);
std::string why_outside_text(const ImageInfo& info, const WhyOutside& why,
                             const SnapshotView& view);
std::string image_diff_text(const ImageSummary& before, const ImageSummary& after,
                            const ImageDiff& diff, const SnapshotView& view);
std::string garbage_text(const ImageInfo& info, const Garbage& garbage, const SnapshotView& view);
std::string waste_text(const HeapImage& image, const std::vector<WasteRow>& rows,
                       const SnapshotView& view);

}  // namespace memprofd::ctl
