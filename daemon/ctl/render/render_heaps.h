// SPDX-License-Identifier: Apache-2.0
// Snapshots of heaps that memprofd keeps, as text.
#pragma once

#include <string>

#include "memprof/v1/heaps.pb.h"

namespace memprofd::ctl {

// A table with the latest snapshot first, and the directory.
std::string kept_heaps_text(const ::memprof::v1::ListHeapsResponse& heaps);
// One line about a snapshot that was just taken.
std::string kept_heap_text(const ::memprof::v1::KeptHeap& heap);

}  // namespace memprofd::ctl
