// SPDX-License-Identifier: Apache-2.0
// A thread that reports itself at the safe point waits in the kernel for up to half a millisecond.
// Most kernels run no other thread on its processor during that time, so the thread that answers
// must be woken on another processor.
#pragma once

#include "daemon/discover/proc_fs.h"

namespace memprofd {

// Moves this thread, for the rest of its life, off the processors on which threads of the process
// run now, unless no processor would remain.
void keep_off_processors_of(const ProcFs& proc, int pid);

}  // namespace memprofd
