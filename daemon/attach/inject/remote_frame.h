// SPDX-License-Identifier: Apache-2.0
// A stack image that makes a stopped thread call two functions and then resume where it was,
// without further help.
//
// The kernel runs signal handlers in the same way: the return address of the called function is the
// C library's signal restorer, whose rt_sigreturn restores all registers from the frame that it
// finds on the stack. Nothing depends on the tracer once the registers are set: if the tracer is
// killed in the middle, the thread runs the calls and continues its own work.
//
//     high   path string
//            saved floating point state (shared by both frames)
//     F2     restorer | registers of the interrupted program
//     F1     restorer | registers for the second call: rip = second, rsp = F2
//     low    stack of the first call: rip = first, rsp = F1
//
//     first() -> ret -> restorer: rt_sigreturn(F1) -> second() -> ret
//             -> restorer: rt_sigreturn(F2) -> the interrupted instruction
//
// For x86-64 only; another architecture needs its own image.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace memprofd {

// State of a stopped thread, as read by ptrace.
struct ThreadState {
  user_regs_struct regs{};
  std::uint64_t signal_mask = 0;
  std::vector<std::byte> xstate;  // NT_X86_XSTATE, standard format
};

// Size of the standard format with these features (bits as in XCR0), on this processor.
std::size_t xstate_bytes(std::uint64_t features);

struct RemoteCall {
  std::uint64_t function = 0;
  std::uint64_t argument1 = 0;
  std::uint64_t argument2 = 0;
  std::uint64_t argument3 = 0;
};

struct RemoteFrame {
  std::uint64_t base = 0;  // address of `bytes`
  std::vector<std::byte> bytes;
  std::uint64_t text_address = 0;  // address of `text`, NUL-terminated
  std::uint64_t frame1 = 0;        // F1; the stack of the first call is below
  std::uint64_t frame2 = 0;        // F2: rsp of a call that returns to the program
  user_regs_struct regs{};         // registers that start `first`
};

// As argument 1 or 2 of `first`, stands for text_address.
inline constexpr std::uint64_t kTextArgument = ~std::uint64_t{0};

// Without a second call, the first call returns to the program.
RemoteFrame build_remote_frame(const ThreadState& state, std::uint64_t restorer, RemoteCall first,
                               std::optional<RemoteCall> second, const std::string& text);

// True if a thread with that stack pointer is in the second call, so the first one has returned.
bool in_second_call(const RemoteFrame& frame, std::uint64_t stack_pointer);

// Registers for a call that returns through a frame that was already written, and so resumes the
// program.
user_regs_struct registers_for_call(const user_regs_struct& now, RemoteCall call,
                                    std::uint64_t frame);

}  // namespace memprofd
