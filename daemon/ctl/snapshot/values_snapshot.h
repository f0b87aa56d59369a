// SPDX-License-Identifier: Apache-2.0
// Values that are too large to be read while the program runs, from a snapshot of its heap.
#pragma once

#include "daemon/snapshot/heap_image.h"
#include "memprof/v1/values.pb.h"

namespace memprofd::ctl {

// True if some module values were too large to be read completely.
bool has_too_large(const ::memprof::v1::ListValuesResponse& values);
// Counts these values in the image, which is of the same program, and marks them. Values that are
// not in it, or are of another kind by then, stay unchanged. Returns how many were counted.
int complete_values(const HeapImage& image, ::memprof::v1::ListValuesResponse& values);

}  // namespace memprofd::ctl
