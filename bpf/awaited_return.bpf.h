/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds the thread pointer of the running thread, and tracks whether a return that the kernel
 * awaits may still come.
 *
 * To await a return, the kernel replaces the return address by an address of its own, the start of
 * a page that it maps into the program ("[uprobes]"). It remembers the replaced address per thread,
 * and ends a wait when it sees a call or a return higher on the stack. That is wrong if a thread
 * has several stacks, those of a signal handler or of coroutines: a function that then returns to
 * the kernel's address is killed (SIGILL). Therefore a thread has at most one such wait. It gets no
 * second one while the kernel's address is still in place, and none above a wait of an earlier
 * session, which only the kernel remembers, or of another profiler.
 */
#ifndef MEMPROF_AWAITED_RETURN_BPF_H
#define MEMPROF_AWAITED_RETURN_BPF_H

/* Set before load: bytes into the kernel's structures (KernelOffsets in kernel_offsets.h). */
const volatile __u32 thread_pointer_at = 0;
const volatile __u32 task_memory_at = 0;
const volatile __u32 memory_probe_page_at = 0;
const volatile __u32 probe_page_address_at = 0;
const volatile __u32 task_probes_at = 0;
const volatile __u32 probes_awaited_at = 0;
const volatile __u32 awaited_next_at = 0;
const volatile __u32 awaited_slot_at = 0;

/* The kernel awaits no more returns of a thread than this. */
#define MAX_AWAITED 64

static __always_inline __u64 kernel_word(__u64 address)
{
	__u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), (const void *)address);
	return word;
}

static __always_inline __u64 thread_pointer(void)
{
	return kernel_word(bpf_get_current_task() + thread_pointer_at);
}

enum awaited_return {
	RETURN_GONE,	/* the return will not come */
	RETURN_UNSURE,	/* it may */
	RETURN_AWAITED, /* the call has not ended */
};

/* State of the call whose return address is in that slot, for a call that begins at this stack
 * pointer. The kernel's code at its own address first puts the result of the call there, and may be
 * interrupted then; no block has an odd address, and no error number is large. */
static __always_inline enum awaited_return find_awaited(__u64 slot, __u64 sp)
{
	__u64 memory = kernel_word(bpf_get_current_task() + task_memory_at);
	__u64 page = kernel_word(memory + memory_probe_page_at), word;

	if (page == 0)
		return RETURN_GONE;
	if (memprof_walk_read(&word, sizeof(word), slot) != 0)
		return RETURN_UNSURE;
	if (word == kernel_word(page + probe_page_address_at))
		return RETURN_AWAITED;
	return slot != sp && (word < 4096 || word % 8 == 0) ? RETURN_UNSURE : RETURN_GONE;
}

/* True if the kernel awaits a return of this thread that is below sp and may still come. Not
 * static, so that the kernel verifies it only once. */
__noinline bool any_awaited_below(__u64 sp)
{
	__u64 probes = kernel_word(bpf_get_current_task() + task_probes_at), at, slot;
	int i;

	at = probes != 0 ? kernel_word(probes + probes_awaited_at) : 0;
	for (i = 0; i < MAX_AWAITED && at != 0; i++) {
		slot = kernel_word(at + awaited_slot_at);
		if (slot < sp && find_awaited(slot, sp) != RETURN_GONE)
			return true;
		at = kernel_word(at + awaited_next_at);
	}
	return false;
}

#endif
