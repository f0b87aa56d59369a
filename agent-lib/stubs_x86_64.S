/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where OCaml code enters the agent, and the probe. x86-64 System V.
 *
 * OCaml calling convention: argument in rax, closure in rbx, result in rax;
 * r14 (domain state) and r15 (allocation pointer) must survive, everything else
 * is scratch. C keeps r14 and r15. At entry rsp is 8 below a multiple of 16, as
 * in C. None of the C functions called here allocates on the OCaml heap, except
 * that a failing start raises, and raising reloads r15 by itself.
 */

	.macro OCAML_TO_C name, function
	.globl	\name
	.hidden	\name
	.type	\name, @function
\name:
	.cfi_startproc
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movq	%rax, %rdi
	call	\function
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	OCAML_TO_C memprof_stub_alloc_minor, memprof_on_alloc_minor
	OCAML_TO_C memprof_stub_alloc_major, memprof_on_alloc_major
	OCAML_TO_C memprof_stub_promote, memprof_on_promote
	OCAML_TO_C memprof_stub_dealloc_minor, memprof_on_dealloc_minor
	OCAML_TO_C memprof_stub_dealloc_major, memprof_on_dealloc_major
	OCAML_TO_C memprof_stub_start, memprof_start_body

/*
 * OCaml 5: OCaml code runs on the stack of a fiber, which is small. caml_c_call, with
 * the C function in rax, goes over to the C stack and leaves everything as the
 * collector wants it: the function may allocate, stop the world and raise.
 */
	.macro OCAML5_TO_C name, function
	.globl	\name
	.hidden	\name
	.type	\name, @function
\name:
	.cfi_startproc
	movq	%rax, %rdi
	leaq	\function(%rip), %rax
	jmp	*caml_c_call@GOTPCREL(%rip)
	.cfi_endproc
	.size	\name, . - \name
	.endm

/*
 * void memprof_stub4_return(result, domain state, sp, pc): returns to OCaml 4 code where that has
 * called C. It reloads the allocation pointer from the domain state, and keeps no other register.
 */
	.globl	memprof_stub4_return
	.hidden	memprof_stub4_return
	.type	memprof_stub4_return, @function
memprof_stub4_return:
	movq	%rdi, %rax
	movq	%rsi, %r14
	movq	%rdx, %rsp
	jmp	*%rcx
	.size	memprof_stub4_return, . - memprof_stub4_return

/*
 * void memprof_stub5_return(result, domain state, pc): returns to pc in caml_c_call, which reloads
 * everything else from the domain state. c_stack is at 64 there.
 */
	.globl	memprof_stub5_return
	.hidden	memprof_stub5_return
	.type	memprof_stub5_return, @function
memprof_stub5_return:
	movq	%rdi, %rax
	movq	%rsi, %r14
	movq	64(%rsi), %rsp
	jmp	*%rdx
	.size	memprof_stub5_return, . - memprof_stub5_return

	.weak	caml_c_call
	OCAML5_TO_C memprof_stub5_alloc_minor, memprof_on_alloc_minor
	OCAML5_TO_C memprof_stub5_alloc_major, memprof_on_alloc_major
	OCAML5_TO_C memprof_stub5_promote, memprof_on_promote
	OCAML5_TO_C memprof_stub5_dealloc_minor, memprof_on_dealloc_minor
	OCAML5_TO_C memprof_stub5_dealloc_major, memprof_on_dealloc_major
	OCAML5_TO_C memprof_stub5_start, memprof_start_body

/*
 * void memprof_probe_batch(records, count, first_seq, generation, buffer, format)
 *
 * The USDT probe memprof:batch. A one-byte nop: longer ones are rewritten into
 * calls by some kernels, which is not safe everywhere.
 */
	.globl	memprof_probe_batch
	.hidden	memprof_probe_batch
	.type	memprof_probe_batch, @function
memprof_probe_batch:
	.cfi_startproc
.Lprobe_batch:
	nop
	ret
	.cfi_endproc
	.size	memprof_probe_batch, . - memprof_probe_batch

/*
 * void memprof_c_alloc_probe(block, bytes, weight, event)
 * void memprof_c_free_probe(block, 0, 0, event)
 *
 * Where events of C memory are to be had (include/memprof_native_heap_abi.h). One-byte nops too. We find
 * them by these names, others by the notes below.
 */
	.macro C_PROBE name
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	C_PROBE memprof_c_alloc_probe
	C_PROBE memprof_c_free_probe

/* The kernel counts watchers in the first half; the agent sets the second while
 * a session runs. Side by side, so that one load answers "anything to do?". */
	.section .probes, "aw", @progbits
	.balign	4
	.globl	memprof_activity
	.hidden	memprof_activity
	.type	memprof_activity, @object
	.size	memprof_activity, 4
memprof_activity:
memprof_batch_semaphore:
	.value	0
	.value	0

	.section .stapsdt.base, "aG", @progbits, .stapsdt.base, comdat
	.weak	_.stapsdt.base
	.hidden	_.stapsdt.base
_.stapsdt.base:
	.space	1
	.size	_.stapsdt.base, 1

	.section .note.stapsdt, "", @note
	.balign	4
	.4byte	2f - 1f, 4f - 3f, 3
1:	.asciz	"stapsdt"
2:	.balign	4
3:	.8byte	.Lprobe_batch
	.8byte	_.stapsdt.base
	.8byte	memprof_batch_semaphore
	.asciz	"memprof"
	.asciz	"batch"
	.asciz	"8@%rdi 4@%esi 8@%rdx 4@%ecx 4@%r8d 4@%r9d"
4:	.balign	4

	/* Without a semaphore: whether blocks are followed is for who watches memprof:batch to say. */
	.macro OTEL_MEMORY name, at, arguments
	.balign	4
	.4byte	2f - 1f, 4f - 3f, 3
1:	.asciz	"stapsdt"
2:	.balign	4
3:	.8byte	\at
	.8byte	_.stapsdt.base
	.8byte	0
	.asciz	"otel_memory"
	.asciz	"\name"
	.asciz	"\arguments"
4:	.balign	4
	.endm

	OTEL_MEMORY alloc, memprof_c_alloc_probe, "8@%rdi 8@%rsi 8@%rdx"
	OTEL_MEMORY free, memprof_c_free_probe, "8@%rdi"

	.section .note.GNU-stack, "", @progbits
