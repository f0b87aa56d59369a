// SPDX-License-Identifier: Apache-2.0
// Takes a snapshot of a target's heap: predicts what it costs, has a copy of the target made at its
// safe point, and writes the file while the copy is read. In three threads:
//
//     who asks      checks; waits for the safe point; hands on what is written, piece by piece
//     injector      waits for a thread of the target that passes the safe point
//     its round     has the copy made, reads it, writes pieces; its end, however it comes, is the
//                   copy's
//
// The target stands still from the knock of its thread until the copy is made; it does not wait
// for anything after that. Its memory has to hold the pages that it writes twice until the copy is
// read: who takes the pieces too slowly gets no snapshot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/attach/copy_ticket.h"
#include "daemon/attach/inject/heap_points.h"
#include "daemon/model/control.h"
#include "daemon/pipeline/sample_sites.h"
#include "daemon/symbolize/symbolizer.h"
#include "daemon/util/ids.h"

namespace memprofd {

// All of a target that goes into its snapshots.
struct HeapSource {
  std::shared_ptr<const CopyTicket> ticket;
  std::shared_ptr<Symbolizer> symbolizer;
  double sampling_rate = 0;
  // Asked by numbers of blocks, as far as they live; on any thread, soon.
  std::function<SampleSites(std::vector<SampleId> numbers)> sites;
};

// The points at which a target waits for a snapshot of it.
absl::StatusOr<HeapPoints> points_of(const CopyTicket& ticket);

// Hands out a heap file (snapshot/file/), in pieces, as it is made. In one line:
// kOutOfRange when the target would stand still for too long, kResourceExhausted when there is no
// room for the copy, kFailedPrecondition when it cannot be; then nothing was done to the target.
absl::StatusOr<HeapSummary> take_heap(const HeapSource& source, const HeapRequest& request,
                                      const HeapClient& client);

}  // namespace memprofd
