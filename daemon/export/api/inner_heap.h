// SPDX-License-Identifier: Apache-2.0
// Heaps that memprofd takes a snapshot of to look at them itself, within its own memory.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "daemon/export/api/control_service.h"
#include "daemon/snapshot/heap_image.h"

namespace memprofd {

// Blocks of a heap, about 40 bytes each.
inline constexpr std::uint64_t kMostInnerBlocks = 10'000'000;

// Has it looked at, one heap at a time in this process. Errors as of taking one;
// kResourceExhausted: the heap has too many blocks, or another one is being looked at. waits:
// whether somebody still waits for the answer.
absl::Status look_at_heap(ControlService& control,
                          const ::memprof::v1::TakeSnapshotRequest& request,
                          const std::function<bool()>& waits,
                          const std::function<absl::Status(HeapImage& image)>& look);

}  // namespace memprofd
