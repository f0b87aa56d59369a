/* SPDX-License-Identifier: Apache-2.0 */
/* A 32-bit program, which memprofd must refuse. Prints "ready", then waits for signals. */
	.globl _start
	.text
_start:
	movl $4, %eax
	movl $1, %ebx
	movl $line, %ecx
	movl $(end - line), %edx
	int $0x80
again:
	movl $29, %eax /* pause */
	int $0x80
	jmp again
	.data
line:	.ascii "ready 0\n"
end:
	.section .note.GNU-stack, "", @progbits
