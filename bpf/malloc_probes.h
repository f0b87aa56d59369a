/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Contract between the daemon and the probes at malloc and its relatives (malloc_probes.bpf.h).
 */
#ifndef MEMPROF_MALLOC_PROBES_H
#define MEMPROF_MALLOC_PROBES_H

#include <linux/types.h>

/* Maximum numbers of live sampled blocks, and of threads inside a call that is followed to its end.
 */
#define MEMPROF_C_PROBE_BLOCKS 65536u
#define MEMPROF_C_PROBE_CALLS 4096u

/* The mean distance between sampled bytes at which each byte has the probability 1 / interval, in
 * 256ths: -1 / ln(1 - 1/n) is n - 1/2, minus a twelfth of 1/n. */
#define MEMPROF_SAMPLER_SCALE(interval) (((__u64)(interval) << 8) - 128)

/* The arguments that determine the requested number of bytes. */
enum memprof_c_function {
	MEMPROF_C_CALL_MALLOC = 0,	   /* (bytes) */
	MEMPROF_C_CALL_CALLOC = 1,	   /* (n, bytes each) */
	MEMPROF_C_CALL_REALLOC = 2,	   /* (block, bytes) */
	MEMPROF_C_CALL_REALLOCARRAY = 3,   /* (block, n, bytes each) */
	MEMPROF_C_CALL_ALIGNED = 4,	   /* (alignment, bytes): aligned_alloc, memalign */
	MEMPROF_C_CALL_POSIX_MEMALIGN = 5, /* (where to put the block, alignment, bytes) */
	MEMPROF_C_CALL_FREE = 6,	   /* (block) */
};

/* Cost of a hit for the program, in microseconds: if the kernel emulates the probed instruction,
 * and if it single-steps it. */
#define MEMPROF_C_HIT_CHEAP 1u
#define MEMPROF_C_HIT_COSTLY 10u
/* Additional cost of an awaited return. */
#define MEMPROF_C_HIT_RETURN 2u

/* Whether a function calls another probed function, whose block is then its own. */
enum memprof_c_nests {
	MEMPROF_C_NESTS_NEVER = 0,
	MEMPROF_C_NESTS_MAYBE = 1, /* once one call is seen to nest, all are assumed to */
	MEMPROF_C_NESTS_ALWAYS = 2,
};

/* Cookie of a probe: the function, the cost of a hit, and enum memprof_c_nests. */
#define MEMPROF_C_COOKIE(function, cost, nests)                                                    \
	((__u64)(function) | (__u64)(cost) << 8 | (__u64)(nests) << 16)
#define MEMPROF_C_COOKIE_FUNCTION(cookie) ((__u32)(cookie)&0xffu)
#define MEMPROF_C_COOKIE_COST(cookie) ((__u32)((cookie) >> 8) & 0xffu)
#define MEMPROF_C_COOKIE_NESTS(cookie) ((__u32)((cookie) >> 16) & 3u)

#endif
