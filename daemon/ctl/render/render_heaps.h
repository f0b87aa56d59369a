// SPDX-License-Identifier: Apache-2.0
// Snapshots of heaps that memprofd keeps, as text.
#pragma once

#include <string>

#include "memprof/v1/heaps.pb.h"

namespace memprofd::ctl {

// A table, the latest first, and where they are.
std::string kept_heaps_text(const ::memprof::v1::ListHeapsResponse& heaps);
// One line about one that was taken just now.
std::string kept_heap_text(const ::memprof::v1::KeptHeap& heap);

}  // namespace memprofd::ctl
