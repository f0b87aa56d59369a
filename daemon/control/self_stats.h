// SPDX-License-Identifier: Apache-2.0
// The resources that this process uses and leaves behind.
#pragma once

#include "daemon/model/control.h"

namespace memprofd {

// CPU time of this process and of its memory servers, so far.
double own_cpu_seconds();

// Fills everything except SelfStats::events.
SelfStats read_self_stats();

}  // namespace memprofd
