// SPDX-License-Identifier: Apache-2.0
// What a probe hit costs on this machine apart from its program: from half a microsecond to
// several, and most where the processor is a virtual one.
#pragma once

namespace memprofd {

struct TrapCost {
  double ns = 0;
  bool measured = false;  // else it is kUsualTrapNs
};

// Measured by a probe at a function of this process when it is first asked for, in about a
// tenth of a second, where that is possible.
TrapCost trap_cost();
inline double trap_ns() { return trap_cost().ns; }

}  // namespace memprofd
