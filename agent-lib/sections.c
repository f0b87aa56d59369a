/* SPDX-License-Identifier: Apache-2.0 */
#include "sections.h"

#include <sched.h>
#include <stdatomic.h>

#include "buffers.h"

struct section {
	void (*work)(domain_state *);
	atomic_int left; /* domains that have not run the function yet; -1 before the first one */
};

static void run_section(domain_state *state, void *data, int participants, domain_state **all)
{
	struct section *section = data;
	int none = -1;

	(void)all;
	section->work(state);
	atomic_compare_exchange_strong(&section->left, &none, participants);
	atomic_fetch_sub(&section->left, 1);
}

int memprof_on_all_domains(void (*work)(domain_state *))
{
	struct section section = {.work = work, .left = -1};
	uint64_t began_ns = memprof_now_ns();

	while (!caml_try_run_on_all_domains(run_section, &section, 0)) {
		if (memprof_now_ns() - began_ns > MEMPROF_SECTION_PATIENCE_NS)
			return 0;
		sched_yield();
	}
	/* The call returns as soon as this domain is done, so wait for the others. */
	while (atomic_load(&section.left) != 0)
		sched_yield();
	return 1;
}
