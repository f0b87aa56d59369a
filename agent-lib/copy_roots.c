/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "copy_roots.h"

#include <sys/mman.h>

#include "raw_syscall.h"

/* The sections come first in this memory; the roots follow them. */
static struct memprof_root_section *sections;
static struct memprof_root *roots;
static uint64_t root_count, root_limit, roots_reported;
static uint32_t section_count;

int memprof_roots_make_room(void)
{
	static const uint64_t tries[] = {MEMPROF_MAX_ROOTS, 1 << 18, 1 << 14};
	const uint64_t head = MEMPROF_MAX_ROOT_SECTIONS * sizeof *sections;

	for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
		long at = raw_syscall(SYS_mmap, 0, (long)(head + tries[i] * sizeof *roots),
				      PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (at > 0) {
			sections = (struct memprof_root_section *)at;
			roots = (struct memprof_root *)(at + (long)head);
			root_limit = tries[i];
			return 1;
		}
	}
	return 0;
}

void memprof_note_root(value held, value *slot)
{
	if (root_count < root_limit)
		roots[root_count] = (struct memprof_root){(uintptr_t)slot, (uintptr_t)held};
	root_count++;
}

uint64_t memprof_roots_noted(void) { return root_count; }

void memprof_roots_go_back(uint64_t noted) { root_count = noted; }

void memprof_end_root_section(enum memprof_root_kind kind, uint32_t domain)
{
	if (section_count < MEMPROF_MAX_ROOT_SECTIONS)
		sections[section_count] = (struct memprof_root_section){
			.kind = kind, .domain = domain, .roots = root_count - roots_reported};
	section_count++;
	roots_reported = root_count;
}

int memprof_report_roots(struct memprof_snapshot *snapshot)
{
	snapshot->roots = (uintptr_t)roots;
	snapshot->sections = (uintptr_t)sections;
	snapshot->section_count = section_count;
	return root_count <= root_limit && section_count <= MEMPROF_MAX_ROOT_SECTIONS;
}
