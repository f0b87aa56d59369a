/* SPDX-License-Identifier: Apache-2.0 */
#include "own_memory.h"

#include <errno.h>
#include <linux/futex.h>

#include "raw_syscall.h"

/* Reads the page by a system call that first reads its argument and then fails for another
 * reason. */
static int page_is_readable(uintptr_t page)
{
	return raw_syscall(SYS_rt_sigprocmask, -1, (long)page, 0, 8, 0, 0) == -EINVAL;
}

int memprof_is_readable(uintptr_t at, size_t bytes)
{
	uintptr_t page, last;

	if (bytes == 0)
		return 1;
	if (at + bytes < at)
		return 0;
	last = memprof_page_of(at + bytes - 1);
	for (page = memprof_page_of(at);; page += MEMPROF_PAGE) {
		if (!page_is_readable(page))
			return 0;
		if (page == last)
			return 1;
	}
}

/* Atomically sets no bits of the word, and wakes waiters, of which there are none. */
int memprof_is_writable(uintptr_t at)
{
	static uint32_t nobodys;

	return raw_syscall(SYS_futex, (long)&nobodys, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0,
			   (long)at, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, 0)) >= 0;
}
