/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: a dl_iterate_phdr of the program's own, as some programs have one that remembers the
 * list; it tells of a file that has gone. */
#define _GNU_SOURCE
#include <link.h>

__attribute__((visibility("default"))) int
dl_iterate_phdr(int (*take)(struct dl_phdr_info *, size_t, void *), void *data)
{
	struct dl_phdr_info gone = {
		.dlpi_addr = 0x100000000000ul,
		.dlpi_name = "libgone.so",
		.dlpi_phdr = (const ElfW(Phdr) *)0x100000000040ul,
		.dlpi_phnum = 10,
	};

	return take(&gone, sizeof(gone), data);
}
