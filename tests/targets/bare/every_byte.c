// SPDX-License-Identifier: Apache-2.0
// Continuously executes almost every byte of 1.5 MB of code; most bytes are in the middle of an
// instruction. A breakpoint meant for another program would change its results or kill it. Prints
// "ready PID", computes until the command "exit", and then prints "fine" if all results were
// correct.
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define STEPS 300000

static uint64_t compute(void)
{
	uint64_t sum = 0;

	__asm__ volatile(".rept 300000\n\tadd $0x01010101, %%rax\n\t.endr" : "+a"(sum));
	return sum;
}

int main(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	uint64_t wrong = 0;

	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (poll(&in, 1, 0) == 0)
		wrong += compute() != STEPS * 0x01010101ull;
	puts(wrong == 0 ? "fine" : "wrong");
	return wrong != 0;
}
