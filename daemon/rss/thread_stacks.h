// SPDX-License-Identifier: Apache-2.0
// Finds the stacks of threads from outside. glibc stores a thread's descriptor at the upper end of
// its stack, with its own address in the first and the third word, and maps an inaccessible page
// below. glibc keeps stacks of ended threads for later ones, and these are found too.
#pragma once

#include <span>

#include "daemon/discover/memory_reader.h"
#include "daemon/rss/extent_layer.h"
#include "daemon/rss/mapping_classes.h"

namespace memprofd {

// Adds the stack with which a guarded range begins, and returns whether there is one. runs:
// resident parts of the range.
bool find_thread_stack(const MemoryReader& memory, const AddressSpan& span,
                       std::span<const AddressSpan> runs, ExtentLayer& out);

}  // namespace memprofd
