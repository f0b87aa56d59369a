// SPDX-License-Identifier: Apache-2.0
// Stacks of threads, without asking threads: glibc puts what it knows of one at the upper end of
// its stack, with its own address in the first and the third word, and a mapping that nothing may
// touch below. Stacks of threads that have ended are kept for the next ones, and found as well.
#pragma once

#include <span>

#include "daemon/discover/memory_reader.h"
#include "daemon/rss/extent_layer.h"
#include "daemon/rss/mapping_classes.h"

namespace memprofd {

// Adds the stack with which a guarded stretch begins, if there is one. runs: what of the stretch is
// resident. Whether there is.
bool find_thread_stack(const MemoryReader& memory, const AddressSpan& span,
                       std::span<const AddressSpan> runs, ExtentLayer& out);

}  // namespace memprofd
