// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daemon/history/snapshot.h"
#include "daemon/model/discovery.h"

namespace memprofd {

// Completes and corrects the results of the last search of /proc by the current targets, which may
// have been attached in other ways, or since.
Discoveries with_targets(Discoveries found, const std::vector<ProfileSnapshotPtr>& targets);

}  // namespace memprofd
