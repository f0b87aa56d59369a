// What a probe hit costs on this machine apart from its program: from half a microsecond to
// several, and most where the processor is a virtual one.
#pragma once

namespace memprofd {

// Nanoseconds. Measured by a probe at a function of this process when it is first asked for,
// in about a tenth of a second; kUsualTrapNs where that is not possible.
double trap_ns();

}  // namespace memprofd
