// SPDX-License-Identifier: Apache-2.0
// A program in which nearly every byte of a megabyte and a half of code is executed again and
// again, most of them in the middle of an instruction: a breakpoint that was meant for another
// program changes what it computes, or kills it. Says "ready PID", computes until it is told
// "exit", and then says "fine" when all was right.
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
