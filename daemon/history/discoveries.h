// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daemon/history/snapshot_source.h"
#include "daemon/model/discovery.h"

namespace memprofd {

// Completes and corrects the results of the last search of /proc with the current targets, which
// may have been attached in other ways, or since the search.
Discoveries with_targets(Discoveries found, const std::vector<ProfileSnapshotPtr>& targets);

}  // namespace memprofd
