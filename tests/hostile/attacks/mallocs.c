/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on a program's malloc. A program with wrong results ends with code 98. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hostile.h"

/* ---------------------------------------------------------------- blocks shared by threads
 */

#define TRADERS 8
#define HANDS 64u

static char *hands[HANDS];

static char *exchange(unsigned hand, char *block)
{
	return __atomic_exchange_n(&hands[hand % HANDS], block, __ATOMIC_ACQ_REL);
}

/* The first byte determines the others. */
static char *fill(char *block, size_t bytes, char with)
{
	if (!block)
		end_wrong("there is no memory");
	block[0] = block[bytes - 1] = with;
	return block;
}

static char *resize(char *block, unsigned by)
{
	char first = block ? block[0] : 'n';
	char *moved = realloc(block, 1 + by % 50000);

	if (moved && block && moved[0] != first)
		end_wrong("what was resized is not what it was");
	return fill(moved, 1 + by % 50000, first);
}

static void *trade(void *seed)
{
	unsigned random = (unsigned)(size_t)seed;

	for (;;) {
		char *block = exchange(random >> 8, NULL);
		size_t bytes = 1 + (random >> 10) % 40000;
		void *never;

		random = random * 1103515245u + 12345;
		switch (random >> 20 & 3) {
		case 0:
			block = resize(block, random >> 9);
			break;
		case 1:
			never = realloc(block, (size_t)1 << 62);
			if (never)
				end_wrong("there is memory without end");
			break;
		default:
			free(block);
			block = fill(malloc(bytes), bytes, 'm');
		}
		free(exchange(random >> 8, block));
	}
	return NULL;
}

/* trade-blocks: threads resize and free blocks of other threads; some resizes fail. */
static void trade_blocks(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (size_t i = 1; i <= TRADERS; i++)
		in_thread(trade, (void *)i);
}

/* ---------------------------------------------------------------- no memory */

#define PIECES 10000
#define PIECE (1u << 20)

static void *exhaust(void *unused)
{
	static void *pieces[PIECES];

	for (;;) {
		int n = 0, failed = 0;

		for (; n < PIECES && !failed; n += !failed) {
			pieces[n] = n % 2 ? malloc(PIECE) : calloc(3, PIECE);
			failed = !pieces[n];
		}
		if (!failed)
			end_wrong("there is more memory than is allowed");
		while (n > 0)
			free(pieces[--n]);
		usleep(1000);
	}
	return unused;
}

/* exhaust: a thread repeatedly allocates all memory that the program may have. */
static void exhaust_in_a_thread(int argc, char **argv)
{
	const struct rlimit two_gigabytes = {2ul << 30, 2ul << 30};

	(void)argc;
	(void)argv;
	if (setrlimit(RLIMIT_AS, &two_gigabytes) != 0)
		give_up("setrlimit");
	in_thread(exhaust, NULL);
}

/* ---------------------------------------------------------------- frees of invalid pointers */

static void *free_at(void *kind)
{
	char *block = malloc(3000);
	const size_t places[] = {16, (size_t)&block & ~15ul, (size_t)block + 1, (size_t)-4096};

	wait_for("go");
	free((void *)places[atoi(kind) & 3]);
	end_wrong("it lives");
	return NULL;
}

/* free-wild KIND: frees an invalid pointer once the file exists: a small number, an address on the
 * stack, the middle of a block, or an address outside of user space. */
static void free_wild(int argc, char **argv)
{
	(void)argc;
	in_thread(free_at, argv[1]);
}

const struct attack malloc_attacks[] = {
	{"trade-blocks", trade_blocks},
	{"exhaust", exhaust_in_a_thread},
	{"free-wild", free_wild},
	{NULL, NULL},
};
