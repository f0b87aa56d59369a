/* SPDX-License-Identifier: Apache-2.0 */
/* A 32-bit program that prints "ready", then waits for signals: what memprofd must refuse. */
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
