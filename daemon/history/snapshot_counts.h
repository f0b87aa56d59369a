// SPDX-License-Identifier: Apache-2.0
// Converts the aggregate of a target to the counts that readers see.
#pragma once

#include "daemon/aggregate/aggregator.h"
#include "daemon/aggregate/callstack_table.h"
#include "daemon/history/snapshot.h"

namespace memprofd {

// Sets counters, rows (classes with samples, by id) and their callstacks, live,
// live_samples_tracked and stacks_interned.
void fill_counts(const Aggregator& aggregator, const CallstackTable& callstacks,
                 ProfileSnapshot& snapshot);

// The reverse, called before anything is counted: a pipeline continues from a snapshot of the same
// program, none of whose blocks are followed any more. Ids stay the same.
void resume_from(const ProfileSnapshot& snapshot, Aggregator& aggregator,
                 CallstackTable& callstacks);

}  // namespace memprofd
