/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml 5: decides, for each domain, for which samples the agent walks the stack.
 *
 * Blocks that OCaml code allocates are sampled and reported at once, while the sampled stack
 * exists; blocks that C code allocates are reported later. A field of the profile, which the
 * runtime reads at each sample, has the number of frames to record. The agent sets it to one frame
 * just before a sample of the first kind:
 *
 *   OCaml code has no room     caml_alloc_small_dispatch
 *     pending actions            .. caml_domain_external_interrupt_hook = ours: arms: field := 1
 *     a sample is due            caml_memprof_sample_young: records one frame
 *                                  callback: field := 256, walks, compares with that frame
 *   C code has none             no pending actions, field = 256: the runtime records all frames
 *
 * The hook is called while requested_external_interrupt of the domain is not 0. Other code requests
 * it with 1; in between the agent leaves MEMPROF_SWITCH_ASKS there, to which no other code reacts.
 * The hook sees the same allocation as the runtime will: the lengths at the return address, the
 * room that is left, and the next sample's place.
 *
 * This works only while no other domain uses the profile. A domain that is spawned uses its
 * parent's profile and writes another number into the field, which then stays. If a sample was
 * recorded with one frame but is not the one that the switch was armed for, it is reported as
 * truncated.
 *
 * With short stacks the switch costs more than it saves, so it is on only while stacks are deep.
 * Its state is written by the domain itself, or while the world is stopped.
 */
#ifndef MEMPROF_SAMPLE_SWITCH_H
#define MEMPROF_SAMPLE_SWITCH_H

#include "../buffers.h"
#include "../runtime_abi.h"

/* The runtime captures the samples of domains of this index and beyond. */
#define MEMPROF_SWITCHES 16u

/* A value of requested_external_interrupt. */
#define MEMPROF_SWITCH_ASKS 2u

/* True if the runtime has everything that is needed, in the expected form. */
int memprof_switch_is_possible(void);

/* Called when this domain has begun a session with a profile of its own. */
void memprof_switch_begin(void);
/* Called when this domain uses the profile of the domain that spawned it. */
void memprof_switch_share(void);
/* Called on this domain, or for it while the world is stopped: undoes everything that was
 * written. */
void memprof_switch_end(domain_state *state);

/* Called in this domain's hook: arms for an imminent sample. */
void memprof_switch_look(void);
/* Value to leave in requested_external_interrupt. */
uintptr_t memprof_switch_asks(void);

/* Called in the callback of a sample: true if memprof_report_stack reports this domain's
 * samples. */
int memprof_switch_is_on(uint32_t index);
/* Counts a sample. frames: its number of frames if OCaml code allocated the block, otherwise 0. */
void memprof_switch_count(uint32_t index, uint32_t frames);

/* The allocation for which the switch was last armed. */
struct memprof_armed {
	uint64_t pc;	 /* return address of the allocation; 0: none */
	uint64_t depth;	 /* bytes from there to its fiber's end */
	uint64_t parent; /* of that fiber */
	int fresh;	 /* this is the first callback since; more samples of it may follow */
};
/* Disarms: the runtime records all frames again. */
struct memprof_armed memprof_switch_take(uint32_t index);
/* The sample was not the one that the switch was armed for. */
void memprof_switch_missed(uint32_t index);
/* The stack was too deep: for a while the switch is not armed for stacks that are as deep. */
void memprof_switch_too_deep(uint32_t index, uint64_t fiber, uint64_t sp);

#endif
