/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler.h"

#include <string.h>

#include "include/memprof_native_heap_abi.h"

__thread struct memprof_c_thread memprof_c_thread;
volatile uint32_t memprof_c_session;

/* The mean distance at which each byte has the probability 1 / interval: -1 / ln(1 - 1/n) is n -
 * 1/2, minus a twelfth of 1/n. */
static double scale;

static uint64_t one_in; /* the interval */

void memprof_c_sampler_set(uint64_t interval)
{
	scale = (double)interval - 0.5;
	one_in = interval;
}

/* splitmix64. */
static uint64_t next_random(struct memprof_c_thread *thread)
{
	uint64_t z = thread->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* -ln of a number in (0, 1], without the math library: x = m 2^e, m from 1 to 2, and ln m = 2
 * atanh((m - 1) / (m + 1)). Accurate to 1e-10. */
static double minus_ln(double x)
{
	uint64_t bits;
	double m, t, square, sum = 0;
	int e, k;

	memcpy(&bits, &x, sizeof(bits));
	e = (int)(bits >> 52) - 1023;
	bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
	memcpy(&m, &bits, sizeof(m));
	t = (m - 1) / (m + 1);
	square = t * t;
	for (k = 21; k > 0; k -= 2)
		sum = sum * square + 2.0 / k;
	return -(e * 0.69314718055994531 + t * sum);
}

/* Number of bytes up to the next sampled one, included. */
static uint64_t draw(struct memprof_c_thread *thread)
{
	double u = (double)((next_random(thread) >> 11) + 1) * 0x1p-53; /* (0, 1] */

	return (uint64_t)(minus_ln(u) * scale) + 1;
}

/* Seeds differ by the thread's address and by the processor's clock. */
static void seed(struct memprof_c_thread *thread)
{
	if (thread->random == 0)
		thread->random = (uint64_t)(uintptr_t)thread ^ __builtin_ia32_rdtsc() << 20;
}

static int begin(struct memprof_c_thread *thread, uint32_t session)
{
	if (session == 0) {
		thread->session = 0;
		thread->left = UINT64_MAX; /* the thread continues unsampled */
		return 0;
	}
	if (thread->session != session) {
		seed(thread);
		thread->left = draw(thread);
		thread->session = session;
	}
	return 1;
}

uint32_t memprof_c_samples(uint64_t bytes)
{
	struct memprof_c_thread *thread = &memprof_c_thread;
	uint64_t rest, step;
	uint32_t n = 1;

	if (!begin(thread, memprof_c_session))
		return 0;
	if (bytes < thread->left) {
		thread->left -= bytes;
		return 0;
	}
	rest = bytes - thread->left;
	step = draw(thread);
	/* The distance to the next one does not depend on earlier ones. */
	for (; bytes < MEMPROF_NATIVE_HEAP_ONE_SAMPLE && step <= rest; n++) {
		rest -= step;
		step = draw(thread);
	}
	thread->left = bytes < MEMPROF_NATIVE_HEAP_ONE_SAMPLE ? step - rest : step;
	return n;
}

/* Probability that none of these bytes is sampled. */
static double chance_of_none(uint64_t bytes)
{
	double result = 1, power = 1 - 1 / (double)one_in;

	for (; bytes != 0; bytes >>= 1, power *= power)
		result *= (bytes & 1) != 0 ? power : 1;
	return result;
}

uint64_t memprof_c_weight(uint64_t bytes, uint32_t n_samples)
{
	if (bytes < MEMPROF_NATIVE_HEAP_ONE_SAMPLE)
		return n_samples * one_in;
	return (uint64_t)((double)bytes / (1 - chance_of_none(bytes)) + 0.5);
}
