/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that a target becomes by exec. It watches all of its code, and memory at the
 * addresses that its predecessor used, for changes that it did not make.
 *
 *   canary NAME [BEGIN-END...]      hexadecimal addresses
 *
 * Prints "canary PID" when it watches, "harmed: WHAT" as soon as something has changed, and at the
 * end of its input, or at "exit", "unharmed ROUNDS". Its code is larger than that of any target, so
 * that an offset into another program's file is an offset into its code: instructions that add 0,
 * four of whose five bytes are the constant.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

__asm__(".text\n"
	".globl run_all_code\n"
	".type run_all_code, @function\n"
	"run_all_code:\n"
	"	xorl %eax, %eax\n"
	"	.rept 300000\n"
	"	.byte 0x05, 0, 0, 0, 0\n" /* add $0, %eax */
	"	.endr\n"
	"	ret\n"
	".size run_all_code, . - run_all_code\n");
unsigned int run_all_code(void);

struct watched {
	const unsigned char *memory;
	unsigned char *expected; /* null: zeros */
	size_t bytes;
};

static struct watched all[256];
static int count;

static void watch(const void *memory, unsigned char *expected, size_t bytes)
{
	if (count < (int)(sizeof(all) / sizeof(all[0])))
		all[count++] = (struct watched){memory, expected, bytes};
}

static int watch_code(struct dl_phdr_info *info, size_t size, void *context)
{
	int fd = open("/proc/self/exe", O_RDONLY);

	(void)size;
	(void)context;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && segment->p_flags == (PF_R | PF_X)) {
			unsigned char *expected = malloc(segment->p_filesz);

			if (pread(fd, expected, segment->p_filesz, (off_t)segment->p_offset) !=
			    (ssize_t)segment->p_filesz)
				exit(99);
			watch((const void *)(info->dlpi_addr + segment->p_vaddr), expected,
			      segment->p_filesz);
		}
	}
	close(fd);
	return 1;
}

/* Ranges that are already mapped belong to this program. */
static void watch_range(const char *text)
{
	unsigned long begin, end;

	if (sscanf(text, "%lx-%lx", &begin, &end) != 2)
		exit(99);
	if (mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (void *)begin)
		watch((const void *)begin, NULL, end - begin);
}

static int is_zero(const unsigned char *memory, size_t bytes)
{
	return memory[0] == 0 && memcmp(memory, memory + 1, bytes - 1) == 0;
}

static size_t first_difference(const struct watched *watched)
{
	size_t i = 0;

	while (i < watched->bytes &&
	       watched->memory[i] == (watched->expected ? watched->expected[i] : 0))
		i++;
	return i;
}

static void look_at(const struct watched *watched)
{
	size_t i;

	if (watched->expected ? memcmp(watched->memory, watched->expected, watched->bytes) == 0
			      : is_zero(watched->memory, watched->bytes))
		return;
	i = first_difference(watched);
	printf("harmed: %s changed at %p to %02x\n", watched->expected ? "code" : "memory",
	       (const void *)(watched->memory + i), i < watched->bytes ? watched->memory[i] : 0);
	exit(1);
}

static int told_to_end(void)
{
	struct pollfd input = {0, POLLIN, 0};
	char line[256];

	if (poll(&input, 1, 0) != 1)
		return 0;
	return !fgets(line, sizeof(line), stdin) || strncmp(line, "exit", 4) == 0;
}

int main(int argc, char **argv)
{
	unsigned long rounds = 0;
	int told = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	dl_iterate_phdr(watch_code, NULL);
	for (int i = 2; i < argc; i++)
		watch_range(argv[i]);
	printf("canary %d\n", getpid());
	do {
		for (int i = 0; i < count; i++)
			look_at(&all[i]);
		if (run_all_code() != 0) {
			puts("harmed: a sum is wrong");
			return 1;
		}
		rounds++;
		told = told || told_to_end();
	} while (!told || rounds < 2);
	printf("unharmed %lu\n", rounds);
	return 0;
}
