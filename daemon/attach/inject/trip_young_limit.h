// SPDX-License-Identifier: Apache-2.0
// Makes a program's next allocation pass the safe point, as the runtime's own signal handlers do:
// moves a domain's limit of the minor heap so that any allocation exceeds it.
#pragma once

#include "daemon/attach/kernel/kernel_side.h"
#include "daemon/discover/target.h"

namespace memprofd {

// Writes the limit in each domain that a thread of the program is in. In OCaml 4 also sets the flag
// that makes the runtime write the limit again when it recomputes it, for example when a thread
// returns from a system call. A race with the runtime's own update is harmless if this is called
// again now and then. Memory that does not look like a domain is not changed.
void trip_young_limit(const Target& target, const KernelSide& kernel);

// Makes one domain take the slow path. state: address of its state. The limit is set above every
// address, not to the end of the minor heap: the program may have moved its minor heap upwards
// since that was read, and would continue below it. Allocations compare with the limit only to
// decide whether to take the slow path, which uses the trigger and recomputes the limit.
// pending_actions: address of OCaml 4's flag.
void trip_young_limit_of_domain(const WritableMemory& memory, const RuntimeAbi& abi,
                                std::uint64_t state, std::uint64_t pending_actions);

}  // namespace memprofd
