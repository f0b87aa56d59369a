/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: a dl_iterate_phdr of the program's own that caches the list, as some programs have. It
 * lists a file that is gone. */
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
