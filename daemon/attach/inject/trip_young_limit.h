// SPDX-License-Identifier: Apache-2.0
// Makes a program's next allocation pass the safe point, as the runtime's own signal
// handlers do: a domain's limit of the minor heap is put where it is passed at once.
#pragma once

#include "daemon/attach/kernel/kernel_side.h"
#include "daemon/discover/target.h"

namespace memprofd {

// Writes a word in each domain that a thread of the program is in and, in OCaml 4, the
// flag that has the word written again where the runtime computes it anew, as it does
// when a thread comes back from a system call. Losing a race with
// the runtime's own update is harmless: to be called again now and then. What does not
// look like a domain is left alone.
void trip_young_limit(const Target& target, const KernelSide& kernel);

// Makes one domain look, by the address of its state. The limit is put above every address, not
// where the minor heap ends: the program may have moved its minor heap upwards since that
// was read, and would go on below it. Allocations compare with the limit only to see
// whether to look closer; that look uses the trigger, and computes the limit anew.
// pending_actions: OCaml 4's flag.
void trip_young_limit_of_domain(const WritableMemory& memory, const RuntimeAbi& abi,
                                std::uint64_t state, std::uint64_t pending_actions);

}  // namespace memprofd
