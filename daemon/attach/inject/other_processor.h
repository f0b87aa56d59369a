// SPDX-License-Identifier: Apache-2.0
// A thread that knocks at the safe point waits there, within the kernel, for up to half a
// millisecond, in which most kernels run nobody else on that processor. Whoever is to answer it in
// time must be woken on another one.
#pragma once

#include "daemon/discover/proc_fs.h"

namespace memprofd {

// Keeps this thread, for the rest of its life, off the processors on which threads of the process
// run now, where that leaves it any.
void keep_off_processors_of(const ProcFs& proc, int pid);

}  // namespace memprofd
