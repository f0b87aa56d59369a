// SPDX-License-Identifier: Apache-2.0
// Takes a snapshot of a target's heap: predicts its cost, makes a copy of the target at its safe
// point, and writes the file while it reads the copy. In three threads:
//
//     who asks      checks; waits for the safe point; hands on what is written, piece by piece
//     injector      waits for a thread of the target that passes the safe point
//     its round     has the copy made, reads it, writes pieces; its end, however it comes, is the
//                   copy's
//
// The target is paused from the moment its thread reports itself until the copy is made, and not
// after that. Its memory has to hold twice the pages that it writes until the copy is read, so a
// client that accepts the pieces too slowly gets no snapshot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/attach/copy_lease.h"
#include "daemon/attach/inject/heap_points.h"
#include "daemon/model/control.h"
#include "daemon/pipeline/sample_sites.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/util/ids.h"

namespace memprofd {

// All of a target that goes into its snapshots.
struct HeapSource {
  std::shared_ptr<const CopyLease> lease;
  std::shared_ptr<Symbolizer> symbolizer;
  double sampling_rate = 0;
  // Returns the sites of blocks by number, if they live; on any thread, soon.
  std::function<SampleSites(std::vector<SampleId> numbers)> sites;
};

// The points at which a target waits for a snapshot of it.
absl::StatusOr<HeapPoints> points_of(const CopyLease& lease);

// Writes a heap file (snapshot/file/) to the request, in pieces. Errors in one line: kOutOfRange if
// the pause would be too long, kResourceExhausted if there is no room for the copy,
// kFailedPrecondition if it is impossible; then nothing was done to the target.
absl::StatusOr<HeapSummary> take_heap(const HeapSource& source, const HeapRequest& request,
                                      const HeapClient& client);

}  // namespace memprofd
