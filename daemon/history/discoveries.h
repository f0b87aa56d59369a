// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daemon/history/snapshot_source.h"
#include "daemon/model/discovery.h"

namespace memprofd {

// What the search of /proc has found, corrected and completed by the targets, which may have been
// attached in other ways and since.
Discoveries with_targets(Discoveries found, const std::vector<TargetSnapshotPtr>& targets);

}  // namespace memprofd
