// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a probe hit on this machine, without its BPF program: from half a
// microsecond to several, and most on virtual processors.
#pragma once

namespace memprofd {

struct TrapCost {
  double ns = 0;
  bool measured = false;  // otherwise it is kUsualTrapNs
};

// Measured, if possible, by a probe at a function of this process on the first call, in about a
// tenth of a second.
TrapCost trap_cost();
inline double trap_ns() { return trap_cost().ns; }

}  // namespace memprofd
