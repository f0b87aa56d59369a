// SPDX-License-Identifier: Apache-2.0
// A thread that reports itself at the safe point waits there, within the kernel, for up to half a
// millisecond, during which most kernels run no other thread on that processor. So the thread that
// answers it must be woken on another processor.
#pragma once

#include "daemon/discover/proc_fs.h"

namespace memprofd {

// Keeps this thread, for the rest of its life, off the processors on which threads of the process
// run now, where that leaves it any.
void keep_off_processors_of(const ProcFs& proc, int pid);

}  // namespace memprofd
