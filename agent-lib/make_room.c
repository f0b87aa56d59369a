/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml 4: the program starts a tracker while a session runs. caml_memprof_start then raises
 * "already started", which it would not do without the agent. Before raising, the runtime calls a
 * hook. There we end the session and repeat the start; the program continues as after a successful
 * start.
 *
 *   OCaml code -> caml_c_call -> caml_memprof_start -> caml_failwith -> caml_raise -> hook
 *       ^                                                                               |
 *       +------------------------------ unit -------------------------------------------+
 *
 * The C functions in between are abandoned as caml_raise abandons them: only their local roots are
 * undone. That is correct only if OCaml code itself calls caml_memprof_start. C code may call it in
 * the middle of a collection and catch the exception (another copy of the agent does both), so
 * there the runtime raises as it would without us.
 *
 * Another hook, called when Memprof is stopped, shows whose tracker runs. 4.11 lacks this hook: its
 * programs get the exception.
 */
#include "make_room.h"

#include <string.h>

#include "buffers.h"
#include "profiles.h"
#include "refused_start.h"
#include "runtime_abi.h"
#include "session.h"
#include "walk/own_walk.h"

#define STRING_TAG 252

typedef void context_action(void *context, void *data);
extern void (*caml_memprof_th_ctx_iter_hook)(context_action *, void *) WEAK;
extern void (*caml_channel_mutex_unlock_exn)(void) WEAK;

/* Continues where OCaml code has called C, with this result. */
extern void memprof_stub4_return(value result, char *state, uint64_t sp, uint64_t pc)
	__attribute__((noreturn));

static void (*next_each_context)(context_action *, void *);
static void (*next_raise)(void);
static int chained;
static uint64_t stopped; /* the session in which Memprof was stopped last */

/* ------------------------------------------------------------------ who runs */

/* Collections go through the contexts with data, a stop without any. */
static void on_each_context(context_action *action, void *data)
{
	if (!data) {
		stopped = memprof_agent_control.starts;
		memprof_session_memprof_stops();
	}
	next_each_context(action, data);
}

/* ------------------------------------------------------------------ a start that is refused */

static struct local_roots **local_roots(void)
{
	return (struct local_roots **)memprof_state_of_c_calls(MEMPROF_STATE_LOCAL_ROOTS);
}

/* True if these are the roots of a function with this many values, in the C code that OCaml code
 * has called. */
static int are_roots_of(const struct local_roots *roots, intptr_t values)
{
	uint64_t end, pc;

	memprof_stack_begin(&end, &pc);
	return memprof_are_roots_of(roots, values, end);
}

static int start_is_called_by_ocaml(void)
{
	uint64_t sp, pc;

	memprof_stack_begin(&sp, &pc);
	return memprof_is_call_of_start(pc);
}

static int is_refusal(value text)
{
	return IS_BLOCK(text) && (((uint64_t *)text)[-1] & 0xff) == STRING_TAG &&
	       WORDS_OF(text) == sizeof MEMPROF_REFUSAL / sizeof(value) + 1 &&
	       memcmp((const char *)text, MEMPROF_REFUSAL, sizeof MEMPROF_REFUSAL) == 0;
}

/* Returns the roots of caml_memprof_start if it is the function that raises, otherwise null. */
static struct local_roots *refused_start(void)
{
	const value failure = (value)&caml_exn_Failure;
	struct local_roots *roots = *local_roots();

	if (!are_roots_of(roots, 1)) /* the exception's, in caml_raise_with_arg */
		return 0;
	roots = roots->next; /* its arguments */
	if (!are_roots_of(roots, 2) || *roots->table[0] != failure || !is_refusal(*roots->table[1]))
		return 0;
	roots = roots->next; /* the roots of caml_raise_with_string */
	if (!are_roots_of(roots, 1) || *roots->table[0] != failure)
		return 0;
	return are_roots_of(roots->next, 3) && start_is_called_by_ocaml() ? roots->next : 0;
}

/* Nothing here allocates on the OCaml heap. Invalid arguments raise, as without us. */
static void start_after_all(const struct local_roots *start)
{
	value rate = *start->table[0], frames = *start->table[1], tracker = *start->table[2];
	value result;
	uint64_t sp, pc;

	*local_roots() = start->next;
	memprof_session_makes_room();
	result = caml_memprof_start(rate, frames, tracker);
	memprof_session_is_aside();
	memprof_stack_begin(&sp, &pc);
	memprof_stub4_return(result, Caml_state, sp, pc);
}

/* The number of sessions so far identifies a session. */
static int is_ours(void)
{
	return memprof_activity.sampling && stopped != memprof_agent_control.starts;
}

static void on_raise(void)
{
	const struct local_roots *start;

	if (UNLIKELY(is_ours() && !memprof_starts_profile())) {
		start = refused_start();
		if (start)
			start_after_all(start);
	}
	if (next_raise)
		next_raise();
}

/* ------------------------------------------------------------------ sessions */

void memprof_room_take_hooks(void)
{
	if (chained || !&caml_memprof_th_ctx_iter_hook || !&caml_channel_mutex_unlock_exn ||
	    !&caml_exn_Failure || !memprof_walk_is_possible())
		return;
	next_each_context = caml_memprof_th_ctx_iter_hook;
	next_raise = caml_channel_mutex_unlock_exn;
	chained = 1;
	caml_memprof_th_ctx_iter_hook = on_each_context;
	memprof_set_hook(&caml_channel_mutex_unlock_exn, on_raise);
}
