/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets of the fields that the tests read in an honest agent's control block. */
#include <stddef.h>

#include "memprof_agent_abi.h"

__attribute__((visibility("default"))) const unsigned long hostile_requested_until_offset =
	offsetof(struct memprof_agent_control, requested_until_ns);
