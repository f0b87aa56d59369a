/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Measures calls from start to end. Return addresses are not replaced, because the collector reads
 * them. A call is identified by its stack (a thread's in OCaml 4, a fiber's in OCaml 5) and by the
 * depth at which the function was entered. Depths are measured from the end of the stack that stays
 * in place when the runtime moves the stack to a larger one. Unfinished calls of one stack form a
 * list, innermost first. An exception leaves calls without a hit: they have ended when a hit on
 * their stack is not deeper.
 *
 *   entry at depth d:  an exception has left all calls at d or deeper; a new call begins
 *   exit at depth d:   an exception has left all calls deeper than d; the one at d ends, or its
 *                      begin is unknown
 *
 * A stack belongs to the thread that runs on it, so no other thread changes its list.
 *
 * Besides its time, a call has the words that the domain allocates meanwhile, by the runtime's own
 * counters, which collections do not reset. If a fiber continues in another domain, the words are
 * unknown.
 */
#ifndef MEMPROF_CALL_TIMES_BPF_H
#define MEMPROF_CALL_TIMES_BPF_H

struct call_key {
	__u64 stack;
	__u64 depth; /* bytes, not 0 */
};

struct open_call {
	__u64 below; /* depth of the next outer call; 0: none */
	__u64 began_ns;
	__u64 function;
	__u64 domain; /* address of the domain state; 0: words are unknown */
	__u64 words;  /* allocated by the domain when the call began */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMPROF_CALL_OPEN);
	__type(key, struct call_key);
	__type(value, struct open_call);
} open_calls SEC(".maps");

/* Maps a stack to the depth of its innermost call. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MEMPROF_CALL_STACKS);
	__type(key, __u64);
	__type(value, __u64);
} stacks SEC(".maps");

/* Returns false if the stack does not have the expected layout. */
static __always_inline bool find_fiber(struct pt_regs *ctx, __u64 sp, struct call_key *key)
{
	__u64 info, end;

	if (bpf_probe_read_user(&info, sizeof(info),
				(const void *)(ctx->r14 + current_stack_offset)) != 0)
		return false;
	if (bpf_probe_read_user(&end, sizeof(end), (const void *)(info + fiber_end_offset)) != 0 ||
	    bpf_probe_read_user(&key->stack, sizeof(key->stack),
				(const void *)(info + fiber_id_offset)) != 0)
		return false;
	key->depth = end - sp;
	return end > sp;
}

static __always_inline bool find_stack(struct pt_regs *ctx, __u64 cookie, struct call_key *key)
{
	__u64 sp = ctx->rsp + 8 * (__u64)MEMPROF_CALL_STACK_WORDS(cookie);

	if (fiber_stacks)
		return find_fiber(ctx, sp, key);
	key->stack = (__u32)bpf_get_current_pid_tgid();
	key->depth = -sp;
	return true;
}

static __always_inline struct memprof_call_counts *counts_of(__u64 function)
{
	__u32 index = (__u32)function;

	return bpf_map_lookup_elem(&counts, &index);
}

/* Returns the integer that a double contains. */
static __always_inline __u64 whole_number(__u64 bits)
{
	__u32 exponent = (bits >> 52) & 0x7ff;
	__u64 mantissa = (bits & ((1ULL << 52) - 1)) | 1ULL << 52;

	if (exponent < 1023)
		return 0;
	if (exponent <= 1075)
		return mantissa >> ((1075 - exponent) & 63);
	return mantissa << ((exponent - 1075) & 63);
}

/* Reads the number of words that the running domain has allocated so far. young_words: words that
 * the function has just begun to allocate. In OCaml code, r14 has the domain state and r15 the end
 * of the free part of the minor heap. Returns false if they cannot be read. */
static __always_inline bool read_words(struct pt_regs *ctx, __u32 young_words, __u64 *words)
{
	__u64 state = ctx->r14, stats[3], young_end, more;
	__u64 more_at = fiber_stacks ? state + allocated_words_offset : allocated_words_address;

	if (!with_words ||
	    bpf_probe_read_user(stats, sizeof(stats), (const void *)(state + stat_words_offset)) ||
	    bpf_probe_read_user(&young_end, sizeof(young_end),
				(const void *)(state + young_end_offset)) ||
	    bpf_probe_read_user(&more, sizeof(more), (const void *)more_at))
		return false;
	if (!fiber_stacks) {
		stats[0] = whole_number(stats[0]);
		stats[1] = whole_number(stats[1]);
		stats[2] = whole_number(stats[2]);
	}
	*words = stats[0] + (young_end - ctx->r15) / 8 - young_words + stats[2] + more - stats[1];
	return young_end >= ctx->r15;
}

struct leaving {
	struct call_key key; /* the innermost open call; depth 0: none */
	__u64 least;	     /* depth from which on exceptions have left the calls */
};

static long leave_one(__u32 index, struct leaving *leaving)
{
	struct memprof_call_counts *own;
	struct open_call *call;

	if (leaving->key.depth == 0 || leaving->key.depth < leaving->least)
		return 1;
	call = bpf_map_lookup_elem(&open_calls, &leaving->key);
	if (!call) {
		leaving->key.depth = 0;
		return 1;
	}
	own = counts_of(call->function);
	if (own)
		__sync_fetch_and_add(&own->raised, 1);
	__u64 below = call->below;
	bpf_map_delete_elem(&open_calls, &leaving->key);
	leaving->key.depth = below;
	return 0;
}

/* Drops the calls from a depth on. Returns the depth of the innermost remaining call, or 0. */
static __always_inline __u64 leave(const struct call_key *at, __u64 least)
{
	struct leaving leaving = {.key = *at, .least = least};
	__u64 *innermost = bpf_map_lookup_elem(&stacks, &at->stack);

	leaving.key.depth = innermost ? *innermost : 0;
	bpf_loop(MEMPROF_CALL_OPEN, leave_one, &leaving, 0);
	if (innermost)
		*innermost = leaving.key.depth;
	return leaving.key.depth;
}

static __always_inline void begin_call(struct pt_regs *ctx, struct memprof_call_counts *own,
				       const struct call_key *key, __u64 cookie)
{
	struct open_call call = {.function = MEMPROF_CALL_FUNCTION(cookie)};
	__u64 depth = key->depth;

	call.below = leave(key, key->depth);
	/* Adds the stack first: a call that no stack leads to would never be found. */
	if (bpf_map_update_elem(&stacks, &key->stack, &depth, BPF_ANY) != 0) {
		__sync_fetch_and_add(&own->lost, 1);
		return;
	}
	if (read_words(ctx, MEMPROF_CALL_YOUNG_WORDS(cookie), &call.words))
		call.domain = ctx->r14;
	call.began_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&open_calls, key, &call, BPF_ANY) != 0) {
		__sync_fetch_and_add(&own->lost, 1);
		depth = call.below;
		bpf_map_update_elem(&stacks, &key->stack, &depth, BPF_EXIST);
	}
}

/* Adds the words of a call that has ended. */
static __always_inline void add_words(struct pt_regs *ctx, struct memprof_call_counts *own,
				      __u64 domain, __u64 begun_with)
{
	__u64 words;
	__u32 bucket;

	if (domain == 0 || domain != ctx->r14 || !read_words(ctx, 0, &words) ||
	    words < begun_with) {
		__sync_fetch_and_add(&own->unsized, 1);
		return;
	}
	words -= begun_with;
	__sync_fetch_and_add(&own->words, words);
	bucket = memprof_call_bucket(words);
	if (bucket < MEMPROF_CALL_BUCKETS)
		__sync_fetch_and_add(&own->word_buckets[bucket], 1);
}

static __always_inline void end_call(struct pt_regs *ctx, struct memprof_call_counts *own,
				     const struct call_key *key, __u64 cookie, __u64 now)
{
	struct open_call *call;
	__u64 below, took, domain, begun_with;
	__u32 bucket;

	below = leave(key, key->depth + 1);
	if (below == 0)
		bpf_map_delete_elem(&stacks, &key->stack);
	call = below == key->depth ? bpf_map_lookup_elem(&open_calls, key) : NULL;
	if (!call || call->function != MEMPROF_CALL_FUNCTION(cookie)) {
		__sync_fetch_and_add(&own->unmatched, 1);
		return;
	}
	took = now - call->began_ns;
	below = call->below;
	domain = call->domain;
	begun_with = call->words;
	bpf_map_delete_elem(&open_calls, key);
	if (below == 0)
		bpf_map_delete_elem(&stacks, &key->stack);
	else
		bpf_map_update_elem(&stacks, &key->stack, &below, BPF_EXIST);
	if (MEMPROF_CALL_PLACE(cookie) == MEMPROF_CALL_TAIL)
		__sync_fetch_and_add(&own->tails, 1);
	else
		__sync_fetch_and_add(&own->returned, 1);
	__sync_fetch_and_add(&own->total_ns, took);
	bucket = memprof_call_bucket(took);
	if (bucket < MEMPROF_CALL_BUCKETS)
		__sync_fetch_and_add(&own->buckets[bucket], 1);
	add_words(ctx, own, domain, begun_with);
}

SEC("uprobe")
int time_call(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 now = bpf_ktime_get_ns();
	struct memprof_call_counts *own;
	struct call_key key = {};
	__u32 place = MEMPROF_CALL_PLACE(cookie);

	if (!take_hit(now))
		return 0;
	own = counts_of(MEMPROF_CALL_FUNCTION(cookie));
	if (!own)
		return 0;
	if (place == MEMPROF_CALL_ENTRY || place == MEMPROF_CALL_BEGIN)
		__sync_fetch_and_add(&own->calls, 1);
	if (place == MEMPROF_CALL_ENTRY)
		return 0;
	if (!find_stack(ctx, cookie, &key)) {
		if (place == MEMPROF_CALL_BEGIN)
			__sync_fetch_and_add(&own->lost, 1);
		return 0;
	}
	if (place == MEMPROF_CALL_BEGIN)
		begin_call(ctx, own, &key, cookie);
	else
		end_call(ctx, own, &key, cookie, now);
	return 0;
}

#endif
