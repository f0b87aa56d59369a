/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's hooks caml_enter_blocking_section_hook and caml_leave_blocking_section_hook are
 * called with the lock held before and after. Other threads may call ours while they are set or
 * restored. This is safe, because the functions that ours call next stay the same, and because the
 * session's number distinguishes current notes from those of earlier sections whose end was not
 * seen. If other hooks were chained above ours, ours stay, and outside sessions they only pass
 * calls on.
 *
 * When the module of the threads library is initialised, it overwrites the hooks instead of
 * chaining them; from then on no notes are remembered.
 */
#include "blocking.h"

#include "domains.h"
#include "runtime_abi.h"
#include "sampler.h"

extern void (*caml_enter_blocking_section_hook)(void) WEAK;
extern void (*caml_leave_blocking_section_hook)(void) WEAK;

typedef void (*hook)(void);

/* The words that each section reads, in one cache line. */
static struct {
	uint64_t place_of_note;
	int has_domains;
	hook after_enter;
	hook after_leave;
} hot __attribute__((aligned(64)));

struct chained {
	hook *place;
	hook ours;
	hook *next;
	int there;
};

/* The runtime's note for this thread, while it does not hold the lock. */
static __thread struct {
	uint64_t note[2];
	uint32_t session; /* 0: it holds the lock, or nothing was remembered */
} released;

int memprof_blocking_hooks;

static void hook_enter_blocking(void);
static void hook_leave_blocking(void);
static struct chained enter = {&caml_enter_blocking_section_hook, hook_enter_blocking,
			       &hot.after_enter, 0};
static struct chained leave = {&caml_leave_blocking_section_hook, hook_leave_blocking,
			       &hot.after_leave, 0};

static void remember(uint32_t session)
{
	const uint64_t *noted = (const uint64_t *)hot.place_of_note;

	if (hot.has_domains) {
		if (!caml_state)
			return;
		noted = (const uint64_t *)(caml_state + hot.place_of_note);
	}
	released.note[0] = noted[0];
	released.note[1] = hot.has_domains ? 0 : noted[1];
	released.session = session;
}

static void hook_enter_blocking(void)
{
	uint32_t session = memprof_c_session;

	if (session != 0)
		remember(session);
	__atomic_load_n(&hot.after_enter, __ATOMIC_ACQUIRE)();
}

static void hook_leave_blocking(void)
{
	released.session = 0;
	__atomic_load_n(&hot.after_leave, __ATOMIC_ACQUIRE)();
}

static void chain(struct chained *hook)
{
	void (*held)(void);

	if (hook->there)
		return;
	held = __atomic_load_n(hook->place, __ATOMIC_ACQUIRE);
	__atomic_store_n(hook->next, held, __ATOMIC_RELEASE);
	hook->there = __atomic_compare_exchange_n(hook->place, &held, hook->ours, 0,
						  __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static void unchain(struct chained *hook)
{
	void (*held)(void) = hook->ours;

	if (hook->there && __atomic_compare_exchange_n(hook->place, &held, *hook->next, 0,
						       __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		hook->there = 0;
}

static int is_innermost(const struct chained *hook)
{
	return __atomic_load_n(hook->place, __ATOMIC_RELAXED) == hook->ours;
}

void memprof_blocking_begin(uint64_t note_place)
{
	if (note_place == 0 || !enter.place || !leave.place || !*enter.place || !*leave.place)
		return;
	hot.place_of_note = note_place;
	hot.has_domains = memprof_has_domains();
	chain(&leave); /* forgets what was remembered */
	chain(&enter);
	memprof_blocking_hooks = enter.there + leave.there;
}

void memprof_blocking_end(void)
{
	unchain(&enter);
	unchain(&leave);
	memprof_blocking_hooks = enter.there + leave.there;
}

void memprof_blocking_note(uint32_t session, struct memprof_c_event *event)
{
	if (released.session != session || (memprof_has_domains() && caml_state) ||
	    !is_innermost(&enter) || !is_innermost(&leave))
		return;
	event->note[0] = released.note[0];
	event->note[1] = released.note[1];
}
