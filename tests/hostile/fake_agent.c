/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lying agent: it looks like memprof_agent, answers requests, and then reports what
 * $HOSTILE_AGENT names:
 *
 *   counts     probe hits with wild pointers, counts, numbers, generations and buffers
 *   packed     packed batches of random words, and of almost valid words
 *   tails      unflushed batches whose counts and sizes are wild
 *   control    a control block of random words, except for its magic
 *   restarts   sessions, generations and numbers that jump to and fro
 *   pointers   buffers anywhere: at 0, in the kernel's half, across the end of the address space
 *   unmapped   the pages behind the block come and go
 *   flood      more than memprofd can read, at any rate
 *   file PATH  the block's own page is one of that file, with its contents
 */
#define _GNU_SOURCE
#include "memprof_agent_abi.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define VISIBLE __attribute__((visibility("default")))

VISIBLE struct memprof_agent_control memprof_agent_control __attribute__((aligned(PAGE))) = {
	.magic = MEMPROF_AGENT_MAGIC,
	.abi_version = MEMPROF_AGENT_ABI,
	.control_bytes = sizeof(struct memprof_agent_control),
	.buffer_bytes = sizeof(struct memprof_batch_buffer),
	.buffer_count = MEMPROF_BUFFERS,
	.domain_bytes = sizeof(struct memprof_domain),
	.domain_count = MEMPROF_DOMAINS,
};
static char rest_of_page[PAGE] __attribute__((aligned(PAGE), used)); /* no other data */
static struct memprof_batch_buffer buffers[4] __attribute__((aligned(PAGE)));
static struct memprof_domain domains[4];
/* The kernel counts watchers here; like the real one it is writable and part of the file. */
unsigned short fake_semaphore __attribute__((section(".probes"))) = 0;

void fake_probe(const void *records, __u32 count, __u64 first_seq, __u32 generation, __u32 buffer,
		__u32 format);
__asm__(".text\n"
	".type fake_probe, @function\n"
	"fake_probe:\n"
	".Lfake:	nop\n"
	"	ret\n"
	".size fake_probe, . - fake_probe\n"
	"	.section .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat\n"
	"	.weak _.stapsdt.base\n"
	"	.hidden _.stapsdt.base\n"
	"_.stapsdt.base:	.space 1\n"
	"	.size _.stapsdt.base, 1\n"
	"	.section .note.stapsdt, \"\", @note\n"
	"	.balign 4\n"
	"	.4byte 2f - 1f, 4f - 3f, 3\n"
	"1:	.asciz \"stapsdt\"\n"
	"2:	.balign 4\n"
	"3:	.8byte .Lfake\n"
	"	.8byte _.stapsdt.base\n"
	"	.8byte fake_semaphore\n"
	"	.asciz \"memprof\"\n"
	"	.asciz \"batch\"\n"
	"	.asciz \"8@%rdi 4@%esi 8@%rdx 4@%ecx 4@%r8d 4@%r9d\"\n"
	"4:	.balign 4\n"
	"	.text\n");

VISIBLE void memprof_agent_poll(void) {}

static volatile struct memprof_agent_control *const control = &memprof_agent_control;

static __u64 some(void)
{
	static __u64 state = 88172645463325252ull; /* xorshift: the same lies in every run */

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* A number of an attacker's choice: small, near a limit, or random. */
static __u64 wild(void)
{
	static const __u64 limits[] = {
		0,	    1,		511,	    512,	513,	    8188,
		16376,	    16377,	0x7fffffff, 0x80000000, 0xffffffff, ~0ull,
		~0ull >> 1, 1ull << 63, 1ull << 47, 128,	129,
	};

	switch (some() % 3) {
	case 0:
		return some() % 600;
	case 1:
		return limits[some() % (sizeof(limits) / sizeof(limits[0]))];
	default:
		return some();
	}
}

/* Pointers to readable, partly readable, unmapped and kernel memory. */
static const void *wild_pointer(void)
{
	switch (some() % 4) {
	case 0:
		return (const char *)buffers + some() % sizeof(buffers);
	case 1:
		return (const char *)(buffers + 4) - some() % 4096;
	case 2:
		return (const void *)wild();
	default:
		return (const void *)(0xffff800000000000ull + some() % (1ull << 40));
	}
}

static void scramble(void *memory, size_t bytes)
{
	__u64 *words = memory;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		words[i] = wild();
}

/* Answers like an honest agent, because memprofd ignores a session without an answer. */
static void answer_request(void)
{
	static __u32 answered;

	if (control->requested_generation == answered)
		return;
	answered = control->requested_generation;
	control->rate = control->requested_rate;
	control->running_generation = answered;
	control->running_capture = control->requested_capture;
	control->state = MEMPROF_AGENT_SAMPLING;
	control->generation = answered;
	control->starts++;
	fake_probe(buffers, 0, 0, answered, 0,
		   control->requested_capture ? MEMPROF_BATCH_PACKED : MEMPROF_BATCH_PLAIN);
}

static void lie_counts(void)
{
	fake_probe(wild_pointer(), (__u32)wild(), wild(),
		   some() % 2 ? control->generation : (__u32)wild(),
		   some() % 2 ? (__u32)(some() % MEMPROF_BUFFERS) : (__u32)wild(),
		   some() % 4 ? (__u32)(some() % 2) : (__u32)wild());
}

static void lie_packed(void)
{
	static __u64 seq;
	struct memprof_packed *batch = &buffers[0].packed;
	__u32 records = (__u32)(some() % 600), words = (__u32)(some() % (MEMPROF_PACKED_WORDS + 1));

	batch->head.time_ns = wild();
	batch->head.base_address = wild();
	batch->head.last_sample = wild();
	batch->head.id_step = (__u32)wild();
	batch->head.records = some() % 2 ? records : (__u32)wild();
	for (__u32 i = 0; i < words; i++)
		batch->words[i] = some() % 2 ? (__u32)wild() : (__u32)some() & 0x3ff;
	fake_probe(batch, words, seq, control->generation, 0, MEMPROF_BATCH_PACKED);
	seq += records;
}

static void lie_tails(void)
{
	for (int i = 0; i < 4; i++) {
		buffers[i].first_seq = wild();
		buffers[i].count = (__u32)wild();
		buffers[i].words = (__u32)wild();
		buffers[i].format = some() % 4 ? (__u32)(some() % 2) : (__u32)wild();
		buffers[i].generation = some() % 2 ? control->generation : (__u32)wild();
		scramble(&buffers[i].packed, 4096);
	}
	scramble(domains, sizeof(domains));
	control->buffers_used = (__u32)wild();
	control->domains_used = (__u32)wild();
}

static void lie_control(void)
{
	struct memprof_agent_control lies = memprof_agent_control;
	size_t begin = offsetof(struct memprof_agent_control, rate);

	scramble((char *)&lies + begin, sizeof(lies) - begin);
	memcpy((char *)&memprof_agent_control + begin, (char *)&lies + begin, sizeof(lies) - begin);
	control->state = (__u32)(some() % 5);
}

static void lie_restarts(void)
{
	control->generation += (__u32)(some() % 3) - 1;
	control->running_generation = (__u32)wild();
	control->starts = wild();
	fake_probe(buffers, (__u32)(some() % 512), wild(), control->generation,
		   (__u32)(some() % 128), MEMPROF_BATCH_PLAIN);
}

static void lie_pointers(void)
{
	control->buffers = (__u64)wild_pointer();
	control->buffers_used = MEMPROF_BUFFERS;
	control->domains = (__u64)wild_pointer();
	control->domains_used = MEMPROF_DOMAINS;
}

static void lie_unmapped(void)
{
	static const int rights[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
	static char *room;

	if (!room)
		room = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	control->buffers = (__u64)room;
	control->buffers_used = MEMPROF_BUFFERS;
	control->domains = (__u64)room;
	control->domains_used = MEMPROF_DOMAINS;
	mprotect(room + some() % 256 * PAGE, PAGE, rights[some() % 3]);
	if (some() % 16 == 0)
		mmap(room, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0);
	fake_probe(room, 512, some(), control->generation, 0, MEMPROF_BATCH_PLAIN);
}

/* Reports deaths of unknown blocks in valid batches. */
static void lie_flood(void)
{
	static __u64 seq;
	struct timespec now;

	for (int hit = 0; hit < 64; hit++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		for (__u32 i = 0; i < MEMPROF_BATCH_RECORDS; i++)
			buffers[0].records[i] = (struct memprof_record){
				.time_ns = (__u64)now.tv_sec * 1000000000 + (__u64)now.tv_nsec,
				.sample_id = ++seq,
				.origin = MEMPROF_ORIGIN(1, 0, MEMPROF_DEALLOC_MAJOR),
			};
		fake_probe(buffers[0].records, MEMPROF_BATCH_RECORDS, seq - MEMPROF_BATCH_RECORDS,
			   control->generation, 0, MEMPROF_BATCH_PLAIN);
	}
}

static const struct {
	const char *name;
	void (*lie)(void);
} kinds[] = {
	{"counts", lie_counts},	    {"packed", lie_packed},	{"tails", lie_tails},
	{"control", lie_control},   {"restarts", lie_restarts}, {"pointers", lie_pointers},
	{"unmapped", lie_unmapped}, {"flood", lie_flood},
};

static void *lie(void *context)
{
	void (*one)(void) = (void (*)(void))context;

	control->buffers = (__u64)buffers;
	control->domains = (__u64)domains;
	for (;;) {
		answer_request();
		if (control->generation != 0)
			one();
		usleep(500);
	}
	return NULL;
}

/* Maps the page from the file with its current contents: reading the block asks the file system. */
static void become_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (mmap(&memprof_agent_control, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
		 0) == MAP_FAILED)
		_exit(99);
}

__attribute__((constructor)) static void start(void)
{
	const char *kind = getenv("HOSTILE_AGENT");
	pthread_t thread;

	unsetenv("LD_PRELOAD");
	if (!kind)
		_exit(99);
	if (strncmp(kind, "file ", 5) == 0) {
		become_file(kind + 5);
		return;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, kind) == 0) {
			pthread_create(&thread, NULL, lie, (void *)kinds[i].lie);
			return;
		}
	_exit(99);
}
