/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Samples bytes of the native heap, each independently with probability 1 / interval, as the
 * agent's sampler does (agent-lib/native_heap/sampler.c), but without floating point. The distance
 * to the next sampled byte does not depend on earlier ones, so nothing is remembered between calls,
 * and calls of different threads do not influence each other.
 *
 * The distance is -ln(u) times the interval, u drawn from (0, 1], rounded up. The same source runs
 * in the kernel and, for tests, on the host.
 *
 * The includer supplies, before including:
 *   static __u64 memprof_random(void);
 */
#ifndef MEMPROF_BYTE_SAMPLER_H
#define MEMPROF_BYTE_SAMPLER_H

#include "../agent-lib/include/memprof_native_heap_abi.h"
#include "malloc_probes.h"

/* More than can be allocated. */
#define MEMPROF_SAMPLER_MAX_BYTES (1ULL << 47)
/* Limits the samples of a block below MEMPROF_NATIVE_HEAP_ONE_SAMPLE, which rarely has more, even
 * at the smallest interval. */
#define MEMPROF_SAMPLER_MAX_SAMPLES 64u

#define MEMPROF_LN2 0xb17217f7d1cf79abULL /* times 2^64 */

/* Not static in the kernel, so that each function is verified once, not on every path to it. */
#ifdef __bpf__
#define MEMPROF_SAMPLER_PART __attribute__((noinline))
#else
#define MEMPROF_SAMPLER_PART static inline
#endif

/* The upper half of a product. */
static inline __u64 memprof_high_product(__u64 a, __u64 b)
{
	__u64 a0 = (__u32)a, a1 = a >> 32, b0 = (__u32)b, b1 = b >> 32;
	__u64 low = a0 * b0, one = a1 * b0 + (low >> 32), other = a0 * b1 + (__u32)one;

	return a1 * b1 + (one >> 32) + (other >> 32);
}

/* The number must not be 0. */
MEMPROF_SAMPLER_PART __u32 memprof_leading_zeros(__u64 x)
{
	__u32 n = 0;

	if (!(x >> 32)) {
		n += 32;
		x <<= 32;
	}
	if (!(x >> 48)) {
		n += 16;
		x <<= 16;
	}
	if (!(x >> 56)) {
		n += 8;
		x <<= 8;
	}
	if (!(x >> 60)) {
		n += 4;
		x <<= 4;
	}
	if (!(x >> 62)) {
		n += 2;
		x <<= 2;
	}
	return x >> 63 ? n : n + 1;
}

/* -ln(1 - v / 2^64) times 2^64, of v from 0 to 2^63, right to a part in 2^29:
 * 2 atanh(t) = 2t (1 + t^2 / 3 + t^4 / 5 ...) with t = v / (2^65 - v), which is a third at most. */
static inline __u64 memprof_minus_ln_of_rest(__u64 v)
{
	__u64 quarter = v >> 2, t, square, sum = 0;
	__u32 shift;
	int k;

	if (quarter == 0)
		return v;
	shift = memprof_leading_zeros(quarter) & 63;
	/* t times 2^(31 + shift). */
	t = (quarter << shift) / (((1ULL << 63) - quarter) >> 31);
	square = t >> shift;
	square = square * square >> 31;
	for (k = 19; k > 0; k -= 2)
		sum = (sum * square >> 31) + (1ULL << 31) / (__u32)k;
	t = (t >> 2) * sum >> 28; /* 2 t sum, times 2^(31 + shift) */
	return shift <= 33 ? t << (33 - shift) : t >> (shift - 33);
}

/* Number of bytes up to the next sampled one, included, from a random number. */
MEMPROF_SAMPLER_PART __u64 memprof_sampler_step(__u64 random, __u64 scale)
{
	__u32 halvings;
	__u64 distance;

	if (random == 0)
		random = 1;
	halvings = memprof_leading_zeros(random) & 63;
	distance = halvings * memprof_high_product(MEMPROF_LN2, scale);
	distance += memprof_high_product(memprof_minus_ln_of_rest(-(random << halvings)), scale);
	return (distance >> 8) + 1;
}

/* Number of sampled bytes; for a large block 1 if any byte is sampled. */
MEMPROF_SAMPLER_PART __u32 memprof_sample_bytes(__u64 bytes, __u64 scale)
{
	__u64 random = memprof_random(), step;
	__u32 n;

	if (bytes > MEMPROF_SAMPLER_MAX_BYTES)
		bytes = MEMPROF_SAMPLER_MAX_BYTES;
	/* -ln(u) is at least 1 - u: most calls end here. */
	if (memprof_high_product(-random, scale) >= bytes << 8)
		return 0;
	step = memprof_sampler_step(random, scale);
	if (step > bytes)
		return 0;
	if (bytes >= MEMPROF_NATIVE_HEAP_ONE_SAMPLE)
		return 1;
	for (n = 1; n < MEMPROF_SAMPLER_MAX_SAMPLES; n++) {
		bytes -= step;
		step = memprof_sampler_step(memprof_random(), scale);
		if (step > bytes)
			break;
	}
	return n;
}

#endif
