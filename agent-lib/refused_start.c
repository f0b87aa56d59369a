/* SPDX-License-Identifier: Apache-2.0 */
#include "refused_start.h"

#include <string.h>

int memprof_are_roots_of(const struct local_roots *roots, intptr_t values, uint64_t end)
{
	uint64_t at = (uint64_t)roots;

	return at > (uint64_t)__builtin_frame_address(0) && at < end && roots->tables == values &&
	       roots->items == 1;
}

/* The call of caml_c_call is 5 bytes long. Before it, one instruction of 7 bytes loads the address
 * of the C function into rax; the compiler emits it, and the linker may shorten it:
 *
 *   48 8b 05 disp   mov  address in the GOT(%rip), %rax
 *   48 8d 05 disp   lea  function(%rip), %rax
 *   48 c7 c0 imm    mov  $function, %rax
 */
int memprof_is_call_of_start(uint64_t pc)
{
	const unsigned char *code = (const unsigned char *)pc - 12;
	uint64_t called;
	int32_t operand;

	memcpy(&operand, code + 3, sizeof operand);
	if (code[0] != 0x48 || code[7] != 0xe8)
		return 0;
	if (code[1] == 0x8b && code[2] == 0x05)
		called = *(const uint64_t *)(pc - 5 + (int64_t)operand);
	else if (code[1] == 0x8d && code[2] == 0x05)
		called = pc - 5 + (int64_t)operand;
	else if (code[1] == 0xc7 && code[2] == 0xc0)
		called = (uint64_t)(int64_t)operand;
	else
		return 0;
	return called == (uint64_t)&caml_memprof_start;
}
