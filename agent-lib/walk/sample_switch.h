/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml 5: which samples the agent walks the stack for, domain by domain.
 *
 * What OCaml code allocates is sampled and told at once, while the sampled stack is there; what C
 * code allocates is told later. How many frames the runtime records is a field of the profile,
 * which it reads at each sample. It is switched to one frame just before a sample of the first
 * kind:
 *
 *   OCaml code has no room     caml_alloc_small_dispatch
 *     pending actions            .. caml_domain_external_interrupt_hook = ours: arms: field := 1
 *     a sample is due            caml_memprof_sample_young: records one frame
 *                                  callback: field := 256, walks, compares with that frame
 *   C code has none             no pending actions, field = 256: the runtime records all it is to
 *
 * The hook is called while requested_external_interrupt of the domain is not 0. 1 is what others
 * ask with; the agent leaves MEMPROF_SWITCH_ASKS there in between, which nobody else acts on. It
 * sees the same allocation as the runtime is about to: the lengths at the return address, the
 * room that is left, and where the next sample is.
 *
 * Only while this domain alone uses the profile. A domain that is spawned uses its parent's and
 * puts another number into the field, for good, in whose place no other is put. A sample that has
 * been recorded with one frame and is not found to be what was armed for is told so, as cut.
 *
 * It costs more than it saves while stacks are short, and is on only where they are not. Written by
 * the domain itself, or while the world stands still.
 */
#ifndef MEMPROF_SAMPLE_SWITCH_H
#define MEMPROF_SAMPLE_SWITCH_H

#include "../buffers.h"
#include "../runtime_abi.h"

/* Domains of this index and beyond have theirs captured by the runtime. */
#define MEMPROF_SWITCHES 16u

/* In requested_external_interrupt. */
#define MEMPROF_SWITCH_ASKS 2u

/* True if the runtime has everything that is needed, in the expected form. */
int memprof_switch_is_possible(void);

/* This domain has begun a session with a profile of its own. */
void memprof_switch_begin(void);
/* This domain uses the profile of the one that spawned it. */
void memprof_switch_share(void);
/* On this domain, or for it when the world stands still: all that was written is undone. */
void memprof_switch_end(domain_state *state);

/* In the hook of this domain: arms for a sample that is about to be. */
void memprof_switch_look(void);
/* Value to leave in requested_external_interrupt. */
uintptr_t memprof_switch_asks(void);

/* In the callback of a sample. Whether this domain's are told by memprof_report_stack. */
int memprof_switch_is_on(uint32_t index);
/* Counts one: its frames, of what OCaml code has allocated, else 0. */
void memprof_switch_count(uint32_t index, uint32_t frames);

/* The allocation for which the switch was last armed. */
struct memprof_armed {
	uint64_t pc;	 /* of the allocation; 0: none */
	uint64_t depth;	 /* bytes from there to its fiber's end */
	uint64_t parent; /* of its fiber */
	int fresh;	 /* this is the first callback since; more samples of it may follow */
};
/* The runtime records all again. */
struct memprof_armed memprof_switch_take(uint32_t index);
/* The sample has not been one that it was armed for. */
void memprof_switch_missed(uint32_t index);
/* Its stack was too deep: none that is no less deep is armed for, for a while. */
void memprof_switch_too_deep(uint32_t index, uint64_t fiber, uint64_t sp);

#endif
