/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The unflushed records of a program that is about to end before the agent can flush them: it is
 * killed by a signal or by the OOM killer, or calls _exit. They are sent as batches, at the last
 * moment before the program's memory is freed:
 *
 *   SIGKILL ---> each thread: signal_deliver ---> here ---> exit, memory is freed
 *
 * Other threads of the program may still run: records that change while they are read are not sent,
 * and a later thread sends the new ones. Included by memprof.bpf.c, after the code that sends
 * batches.
 */
#ifndef MEMPROF_TAILS_BPF_H
#define MEMPROF_TAILS_BPF_H

/* Per buffer: records below this number were sent from here. */
__u64 tails_sent[MEMPROF_BUFFERS] = {};

/* Not static, so that the kernel verifies it once, not once for each buffer. */
__noinline int send_tail(__u32 index, __u32 tid)
{
	struct memprof_agent_control *control = (void *)agent_control;
	struct buffer_head head;
	struct batch_args args = {.buffer = index, .tid = tid};
	__u64 buffers;

	if (index >= MEMPROF_BUFFERS ||
	    memprof_walk_read(&buffers, sizeof(buffers), (__u64)&control->buffers) != 0)
		return 0;
	args.tail_of = buffers + index * sizeof(struct memprof_batch_buffer);
	if (memprof_walk_read(&head, sizeof(head), args.tail_of) != 0 || head.count == 0 ||
	    head.first_seq + head.count <= tails_sent[index])
		return 0;
	tails_sent[index] = head.first_seq + head.count;
	args.records = args.tail_of + sizeof(head);
	args.first_seq = head.first_seq;
	args.generation = head.generation;
	args.n_records = head.count;
	if (head.format == MEMPROF_BATCH_PACKED) {
		args.count = head.words;
		return take_packed(&args);
	}
	args.count = head.count;
	return head.format == MEMPROF_BATCH_PLAIN ? take_plain(&args) : 0;
}

static __always_inline void send_tails(__u32 tid)
{
	const struct memprof_agent_control *control = (void *)agent_control;
	__u32 used = 0;
	__u32 i;

	if (!control || memprof_walk_read(&used, sizeof(used), (__u64)&control->buffers_used) != 0)
		return;
	for (i = 0; i < MEMPROF_BUFFERS; i++) {
		if (i >= used)
			break;
		send_tail(i, tid);
	}
}

/* signal_deliver(sig, info, ka): a signal without a handler ends the program, or is harmless. The
 * first field of struct k_sigaction is the handler; 0 is SIG_DFL. */
SEC("raw_tp/signal_deliver")
int on_signal(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 handler = 1;
	__u32 tid;

	if (agent_control == 0)
		return 0;
	tid = target_tid();
	if (tid == 0 ||
	    bpf_probe_read_kernel(&handler, sizeof(handler), (const void *)ctx->args[2]) != 0 ||
	    handler != 0)
		return 0;
	send_tails(tid);
	return 0;
}

#endif
