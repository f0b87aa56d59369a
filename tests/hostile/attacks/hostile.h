/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks of hostile programs on their profiler.
 *
 * The library is preloaded into an ordinary program of tests/targets. Its constructor runs
 * the attacks that $HOSTILE names, "name argument...; name argument...", before the program's
 * own main. An attack that cannot be set up ends the program with code 99: a test whose
 * attack does not happen has to fail.
 *
 * A moment, wherever an attack takes one:
 *   at-once         in the constructor, or as soon as the thread runs
 *   go              when the file $HOSTILE_GO is there
 *   go+MICROSECONDS after it
 *   seized          a tracer holds one of its threads
 *   breakpoint      a byte of the program's own code is no longer what its file says
 *   agent           the agent is mapped
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stddef.h>
#include <sys/types.h>

struct attack {
	const char *name;
	void (*run)(int argc, char **argv); /* argv[0] is the name */
};

/* Each file of attacks has one table; it ends with a null name. */
extern const struct attack descriptor_attacks[];
extern const struct attack malloc_attacks[];
extern const struct attack memory_attacks[];
extern const struct attack process_attacks[];
extern const struct attack signal_attacks[];
extern const struct attack slot_attacks[];

/* Ends the program with code 99 and this line, errno included. */
void give_up(const char *what) __attribute__((noreturn));
/* Ends it with code 98: the program does not compute what it should. */
void end_wrong(const char *what) __attribute__((noreturn));
/* Waits for the moment. */
void wait_for(const char *moment);
/* True from the moment "go" on, while the file exists. */
int go_file_is_there(void);
/* Runs the function in a new thread that the program's runtime does not know. */
void in_thread(void *(*run)(void *), void *argument);
/* A mapping of this process: [begin, end), its rights and its file or "". */
struct mapping {
	unsigned long begin, end;
	char rights[8];
	char path[512];
};
/* Calls take() for each mapping until it answers nonzero; returns that, or 0. */
int each_mapping(int (*take)(const struct mapping *mapping, void *context), void *context);
/* The base name of the agent's file, or that of its copy in memory. */
int is_agent(const char *path);

#endif
