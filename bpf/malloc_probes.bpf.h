/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Native heap without an agent: probes at the entries of malloc, related functions and free, in the
 * file from which the program uses them.
 *
 *   entry of malloc: is any byte sampled? If so, sends the callstack, notes the call and awaits its
 *                    return.
 *   return:          notes the block's address and reports the block.
 *   entry of free:   if the block is noted, reports its end.
 *
 * To await a return, the kernel replaces the return address by its own (a session of uprobes, Linux
 * 6.13, decides that for each call). OCaml code is the caller only where it calls malloc itself,
 * and no collector reads the stack below a C call.
 *
 * Calls that realloc and related functions make to other probed functions are part of the outer
 * call. Therefore such outer calls are followed to their end, sampled or not, and until then calls
 * of the same thread, deeper in its stack, do not count. The same holds for the inner calls of a
 * malloc other than the C library's: as soon as a sampled call is seen to call another function,
 * all calls are followed to their end; until then about one block counts twice. A signal handler
 * may jump out of a call; the word at the place of its return address shows whether the return may
 * still come (awaited_return.bpf.h).
 */
#ifndef MEMPROF_MALLOC_PROBES_BPF_H
#define MEMPROF_MALLOC_PROBES_BPF_H

#include "awaited_return.bpf.h"
#include "malloc_probes.h"
#include "hit_budget.bpf.h"

static __always_inline __u64 memprof_random(void)
{
	return (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
}

#include "byte_sampler.h"

/* Set before load. */
const volatile __u64 sampler_scale = 0;	      /* MEMPROF_SAMPLER_SCALE */
const volatile __s64 domain_state_offset = 0; /* OCaml 5: from the thread pointer */

/* A call later than this, or deeper on the stack, is not part of the outer call. */
#define C_CALL_MAX_NS 1000000000ULL
#define C_CALL_MAX_DEPTH (64ULL << 10)

struct c_call {
	__u64 sp; /* address of its return address */
	__u64 began_ns;
	__u64 bytes;
	__u64 stack_id;
	__u64 out;	  /* posix_memalign: where the block is put */
	__u64 old;	  /* realloc: the old block */
	__u64 old_number; /* sample number of the old block; 0: not sampled */
	__u32 n_samples;
	__u16 function;
	__u16 nests; /* enum memprof_c_nests */
};

/* Keyed by the kernel's thread id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* before load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct c_call);
} c_calls SEC(".maps");

/* Numbers of live sampled blocks, by address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* before load */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u64);
} c_blocks SEC(".maps");

__u64 last_native_block = 0;
__u32 malloc_nests = 0; /* a function whose nests are MAYBE has called another one */
/* Samples that were dropped because too many sampled blocks live. */
__u64 c_blocks_left_out = 0;

/* Address of the return address at the entry of a function, where nothing has been pushed yet. */
static __always_inline __u64 return_slot(struct pt_regs *ctx) { return PT_REGS_SP(ctx); }

static __always_inline void report_native_block(__u64 number, __u64 address,
						const struct c_call *call, __u32 tid)
{
	struct memprof_c_block block = {};

	fill_header(&block.header, MEMPROF_EVENT_C_BLOCK, tid);
	block.id = number;
	block.generation = 1;
	block.lost = c_events_lost;
	block.address = address;
	if (call) {
		block.stack_id = call->stack_id;
		block.bytes = call->bytes;
		block.n_samples = call->n_samples;
	}
	if (bpf_ringbuf_output(&events, &block, sizeof(block), wakeup_flags()) != 0)
		lose_c_event();
	else
		count_done(MEMPROF_COUNT_C_EVENTS);
}

/* Ends the block; the first caller to see its end wins. */
static __always_inline void end_native_block(__u64 address, __u32 tid)
{
	__u64 *found = bpf_map_lookup_elem(&c_blocks, &address);
	__u64 number;

	if (!found)
		return;
	number = *found;
	if (bpf_map_delete_elem(&c_blocks, &address) == 0)
		report_native_block(number, address, NULL, tid);
}

/* Not static, so that the kernel verifies it once. */
__noinline __u64 walk_c_stack(__u64 sp, __u32 tid)
{
	struct memprof_c_event event = {.thread_pointer = thread_pointer()};

	if (fiber_stacks)
		memprof_walk_read(&event.domain_state, sizeof(event.domain_state),
				  event.thread_pointer + domain_state_offset);
	return send_c_stack(&event, sp, tid);
}

/* ---- calls ---- */

static __always_inline bool bytes_of_call(struct pt_regs *ctx, struct c_call *call)
{
	__u64 first = PT_REGS_PARM1(ctx), second = PT_REGS_PARM2(ctx), third = PT_REGS_PARM3(ctx);
	__u64 n = 1, each;

	/* The verifier requires that these are read here, exactly once. */
	asm volatile("" : "+r"(first), "+r"(second), "+r"(third));
	each = second;
	switch (call->function) {
	case MEMPROF_C_CALL_MALLOC:
		each = first;
		break;
	case MEMPROF_C_CALL_CALLOC:
		n = first;
		break;
	case MEMPROF_C_CALL_REALLOC:
		call->old = first;
		break;
	case MEMPROF_C_CALL_REALLOCARRAY:
		call->old = first;
		n = second;
		each = third;
		break;
	case MEMPROF_C_CALL_POSIX_MEMALIGN:
		call->out = first;
		each = third;
		break;
	}
	call->bytes = n * each;
	/* Fails if the product overflows. */
	return n == 0 || (n <= MEMPROF_SAMPLER_MAX_BYTES && each <= MEMPROF_SAMPLER_MAX_BYTES / n);
}

/* True if an unfinished outer call makes this call as part of its own work. */
static __always_inline bool is_inner_call(const struct c_call *outer, __u64 sp, __u64 now)
{
	if (outer->nests == MEMPROF_C_NESTS_NEVER || sp > outer->sp ||
	    outer->sp - sp >= C_CALL_MAX_DEPTH || now - outer->began_ns >= C_CALL_MAX_NS)
		return false;
	if (outer->nests == MEMPROF_C_NESTS_MAYBE)
		malloc_nests = 1;
	return true;
}

/* True if the end of the call is awaited although it is not sampled. */
static __always_inline bool has_inner_calls(const struct c_call *call)
{
	return call->nests == MEMPROF_C_NESTS_ALWAYS ||
	       (call->nests == MEMPROF_C_NESTS_MAYBE && malloc_nests);
}

/* Ends a call whose return was not seen. If it was a realloc, the state of the old block is
 * unknown. */
static __always_inline void lose_c_call(__u32 thread, const struct c_call *call, __u32 tid)
{
	if (call->n_samples != 0)
		count_drop(MEMPROF_DROP_C_EVENT_LOST);
	if (call->old_number != 0)
		report_native_block(call->old_number, call->old, NULL, tid);
	bpf_map_delete_elem(&c_calls, &thread);
}

/* A thread may end in the middle of a call. */
static __always_inline void end_c_thread(__u32 tid)
{
	__u32 thread = (__u32)bpf_get_current_pid_tgid();
	struct c_call *found = bpf_map_lookup_elem(&c_calls, &thread);

	if (found)
		lose_c_call(thread, found, tid);
}

/* Handles a call whose return cannot be awaited. The block that it resizes is not followed any
 * more. */
static __always_inline bool miss_c_call(const struct c_call *call, __u32 tid)
{
	if (call->n_samples != 0)
		count_drop(MEMPROF_DROP_C_EVENT_LOST);
	if (call->old != 0)
		end_native_block(call->old, tid);
	return false;
}

/* Ends the old block before another thread can get its address. */
static __always_inline bool note_c_call(__u32 thread, struct c_call *call, __u32 tid)
{
	__u64 *found = call->old != 0 ? bpf_map_lookup_elem(&c_blocks, &call->old) : NULL;

	if (found)
		call->old_number = *found;
	if (bpf_map_update_elem(&c_calls, &thread, call, BPF_ANY) != 0)
		return miss_c_call(call, tid);
	if (found)
		bpf_map_delete_elem(&c_blocks, &call->old);
	return true;
}

/* Returns true if the return of the call is to be awaited. */
static __always_inline bool enter_c_call(struct pt_regs *ctx, __u64 cookie, __u64 now)
{
	__u32 thread = (__u32)bpf_get_current_pid_tgid();
	struct c_call *outer = bpf_map_lookup_elem(&c_calls, &thread);
	struct c_call call = {.sp = return_slot(ctx),
			      .began_ns = now,
			      .function = MEMPROF_C_COOKIE_FUNCTION(cookie),
			      .nests = MEMPROF_C_COOKIE_NESTS(cookie)};
	enum awaited_return awaited = RETURN_GONE;
	__u32 tid = target_tid();

	if (tid == 0)
		return false;
	if (outer)
		awaited = find_awaited(outer->sp, call.sp);
	if (awaited == RETURN_AWAITED && is_inner_call(outer, call.sp, now))
		return false;
	if (outer && awaited == RETURN_GONE)
		lose_c_call(thread, outer, tid);
	if (bytes_of_call(ctx, &call))
		call.n_samples = memprof_sample_bytes(call.bytes, sampler_scale);
	if (call.n_samples == 0 && !has_inner_calls(&call))
		return false;
	if (awaited != RETURN_GONE || any_awaited_below(call.sp))
		return miss_c_call(&call, tid);
	if (call.n_samples != 0)
		call.stack_id = walk_c_stack(call.sp, tid);
	return note_c_call(thread, &call, tid);
}

/* Returns the block that a call has returned, or 0. */
static __always_inline __u64 block_of_call(__u64 answer, const struct c_call *call)
{
	__u64 block = 0;

	if (call->function != MEMPROF_C_CALL_POSIX_MEMALIGN)
		return answer;
	if ((__u32)answer == 0)
		memprof_walk_read(&block, sizeof(block), call->out);
	return block;
}

static __always_inline void begin_native_block(__u64 address, const struct c_call *call, __u32 tid)
{
	__u64 number = __sync_fetch_and_add(&last_native_block, 1) + 1;

	end_native_block(address, tid); /* an earlier block whose end was not seen */
	if (bpf_map_update_elem(&c_blocks, &address, &number, BPF_ANY) != 0)
		__sync_fetch_and_add(&c_blocks_left_out, 1);
	else
		report_native_block(number, address, call, tid);
}

/* A block that could not be resized continues to live. */
static __always_inline void leave_old_block(const struct c_call *call, __u64 block, __u32 tid)
{
	__u64 old = call->old, number = call->old_number;

	if (number == 0)
		return;
	if (block != 0 || call->bytes == 0 ||
	    bpf_map_update_elem(&c_blocks, &old, &number, BPF_ANY) != 0)
		report_native_block(number, old, NULL, tid);
}

static __always_inline void leave_c_call(struct pt_regs *ctx)
{
	__u32 thread = (__u32)bpf_get_current_pid_tgid();
	struct c_call *found = bpf_map_lookup_elem(&c_calls, &thread);
	__u64 answer = PT_REGS_RC(ctx), block;
	struct c_call call;
	__u32 tid = target_tid();

	asm volatile("" : "+r"(answer)); /* as above */
	if (tid == 0 || !found || found->sp + 8 != PT_REGS_SP(ctx))
		return;
	call = *found;
	bpf_map_delete_elem(&c_calls, &thread);
	block = block_of_call(answer, &call);
	leave_old_block(&call, block, tid);
	if (block != 0 && call.n_samples != 0)
		begin_native_block(block, &call, tid);
}

/* Returns true if the hit needs more than counting. */
static __always_inline bool take_c_hit(__u64 cookie, __u64 now)
{
	if (budget.off != MEMPROF_CALLS_ON)
		return false;
	__sync_fetch_and_add(&budget.hits, MEMPROF_C_COOKIE_COST(cookie));
	return budget.armed && pay_hits(now, MEMPROF_C_COOKIE_COST(cookie));
}

/* A session of uprobes: runs at the entries, and at the returns for which it returned 0 at the
 * entry. The instruction pointer shows which: at a return it is the address at which the program
 * continues. */
SEC("uprobe")
int c_call_probe(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 now = bpf_ktime_get_ns();

	if (PT_REGS_IP(ctx) != bpf_get_func_ip(ctx)) {
		if (budget.off == MEMPROF_CALLS_ON)
			leave_c_call(ctx);
		return 0;
	}
	if (!take_c_hit(cookie, now) || !enter_c_call(ctx, cookie, now))
		return 1;
	pay_hits(now, MEMPROF_C_HIT_RETURN);
	return 0;
}

SEC("uprobe")
int c_free_probe(struct pt_regs *ctx)
{
	__u32 tid;

	if (!take_c_hit(bpf_get_attach_cookie(ctx), bpf_ktime_get_ns()))
		return 0;
	tid = target_tid();
	if (tid != 0)
		end_native_block(PT_REGS_PARM1(ctx), tid);
	return 0;
}

#endif
