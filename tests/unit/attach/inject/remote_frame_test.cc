// SPDX-License-Identifier: Apache-2.0
// The stack image is run for real here: a thread of this process is made to call
// two functions and to resume, with nobody's help after the registers are set.

#include "daemon/attach/inject/remote_frame.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "daemon/attach/inject/libc_functions.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kRestorer = 0x7000'0000'1000;

ThreadState example_state() {
  ThreadState state;
  state.regs.rsp = 0x7fff'0000'1238;
  state.regs.rip = 0x4000;
  state.regs.r15 = 0x1515;
  state.regs.eflags = 0x246 | 0x100;  // trap flag set
  state.regs.cs = 0x33;
  state.regs.ss = 0x2b;
  state.signal_mask = 0xabc;
  state.xstate.resize(832);
  return state;
}

std::uint64_t word(const RemoteFrame& frame, std::uint64_t address) {
  std::uint64_t value = 0;
  std::memcpy(&value, frame.bytes.data() + (address - frame.base), sizeof(value));
  return value;
}

TEST(RemoteFrame, LiesBelowTheRedZoneAndIsAlignedForCalls) {
  const ThreadState state = example_state();
  const RemoteFrame frame = build_remote_frame(state, kRestorer, {0x1000, kTextArgument, 2},
                                               RemoteCall{0x2000, 3, 0}, "/a/b.so");
  EXPECT_LE(frame.base + frame.bytes.size(), state.regs.rsp - 128);
  EXPECT_EQ(frame.regs.rsp % 16, 8u);
  EXPECT_EQ(frame.frame2 % 16, 8u);
  EXPECT_EQ(frame.regs.rip, 0x1000u);
  EXPECT_EQ(frame.regs.rdi, frame.text_address);
  EXPECT_EQ(frame.regs.rsi, 2u);
  EXPECT_EQ(frame.regs.orig_rax, ~0ULL);
  EXPECT_EQ(word(frame, frame.regs.rsp), kRestorer);
  EXPECT_EQ(word(frame, frame.frame2), kRestorer);
  EXPECT_STREQ(
      reinterpret_cast<const char*>(frame.bytes.data() + (frame.text_address - frame.base)),
      "/a/b.so");
}

TEST(RemoteFrame, NeverResumesWithTheTrapFlag) {
  const RemoteFrame frame =
      build_remote_frame(example_state(), kRestorer, {0x1000, 0, 0}, RemoteCall{0x2000, 0, 0}, "");
  EXPECT_EQ(frame.regs.eflags & 0x100, 0u);
}

TEST(RemoteFrame, TheStackPointerTellsTheCallsApart) {
  const RemoteFrame frame =
      build_remote_frame(example_state(), kRestorer, {0x1000, 0, 0}, RemoteCall{0x2000, 0, 0}, "");
  EXPECT_FALSE(in_second_call(frame, frame.regs.rsp));         // on its way into the first
  EXPECT_FALSE(in_second_call(frame, frame.regs.rsp - 4000));  // deep in it
  EXPECT_TRUE(in_second_call(frame, frame.frame2));
  EXPECT_TRUE(in_second_call(frame, frame.frame2 - 1000));
  EXPECT_FALSE(in_second_call(frame, example_state().regs.rsp));
}

TEST(RemoteFrame, WithoutASecondCallTheFirstReturnsToTheProgram) {
  const RemoteFrame frame =
      build_remote_frame(example_state(), kRestorer, {0x1000, 0, 0}, std::nullopt, "");
  EXPECT_EQ(frame.regs.rsp, frame.frame2);
  EXPECT_EQ(frame.base, frame.frame2);
}

// The part of the saved state that rt_sigreturn has to restore.
struct Marks {
  std::uint32_t magic1, extended_size;
  std::uint64_t features;
  std::uint32_t bytes;
};
Marks marks_of(std::uint64_t enabled, std::uint64_t in_use) {
  ThreadState state = example_state();
  state.xstate.resize(16384);  // as ptrace has it where AMX is
  std::memcpy(state.xstate.data() + 464, &enabled, sizeof enabled);
  std::memcpy(state.xstate.data() + 512, &in_use, sizeof in_use);
  const RemoteFrame frame = build_remote_frame(state, kRestorer, {0x1000, 0, 0}, std::nullopt, "");
  constexpr std::size_t kFpstateOffset = 8 + 40 + 23 * 8;  // in the frame
  const std::uint64_t fpstate = word(frame, frame.frame2 + kFpstateOffset);
  Marks marks{};
  std::memcpy(&marks, frame.bytes.data() + (fpstate + 464 - frame.base), sizeof marks);
  return marks;
}

TEST(RemoteFrame, TakesBackWhatEveryThreadHas) {
  const std::uint64_t avx = 7;
  const Marks marks = marks_of(avx, avx);
  EXPECT_EQ(marks.features, avx);
  EXPECT_EQ(marks.bytes, xstate_bytes(avx));
  EXPECT_EQ(marks.extended_size, marks.bytes + 4);
  EXPECT_LT(marks.bytes, 16384u);
}

TEST(RemoteFrame, OfWhatAThreadHasToAskForOnlyWhatItUses) {
  const std::uint64_t avx = 7, amx = 3u << 17;
  EXPECT_EQ(marks_of(avx | amx, avx).features, avx);
  EXPECT_EQ(marks_of(avx | amx, avx | 1u << 18).features, avx | 1u << 18);
}

// ---- for real

struct Shared {
  volatile int first = 0;
  volatile int second = 0;
  volatile int resumed = 0;
};
Shared shared;

extern "C" void first_call(std::uint64_t argument) { shared.first = static_cast<int>(argument); }
extern "C" void second_call(std::uint64_t argument) {
  shared.second = shared.first * 10 + static_cast<int>(argument);
}

// Stops itself with values in registers that a call may destroy, and answers
// with 0 when all are as they were afterwards, and both calls were made.
int child_main() {
  std::uint64_t general = 0, vector = 0;
  asm volatile(
      "mov $62, %%eax\n\t"
      "mov %[pid], %%edi\n\t"
      "mov $19, %%esi\n\t"
      "mov $0x1122334455667788, %%r9\n\t"
      "movq %%r9, %%xmm7\n\t"
      "syscall\n\t"
      "mov %%r9, %[general]\n\t"
      "movq %%xmm7, %[vector]"
      : [general] "=&r"(general), [vector] "=&r"(vector)
      : [pid] "r"(static_cast<int>(getpid()))
      : "rax", "rdi", "rsi", "rcx", "r9", "r11", "xmm7", "memory");
  shared.resumed = 1;
  const bool same = general == 0x1122334455667788 && vector == 0x1122334455667788;
  return same && shared.first == 4 && shared.second == 47 && shared.resumed ? 0 : 1;
}

// Reads the registers of a child that has stopped.
ThreadState state_of(pid_t child) {
  ThreadState state;
  state.xstate.resize(64u << 10);
  iovec xstate{state.xstate.data(), state.xstate.size()};
  EXPECT_EQ(ptrace(PTRACE_GETREGS, child, nullptr, &state.regs), 0);
  EXPECT_EQ(ptrace(PTRACE_GETSIGMASK, child, sizeof state.signal_mask, &state.signal_mask), 0);
  EXPECT_EQ(ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &xstate), 0);
  state.xstate.resize(xstate.iov_len);
  return state;
}

TEST(RemoteFrame, CallsTwiceAndResumesWithoutATracer) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    _exit(child_main());
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto state = state_of(child);
  const auto libc = find_libc_functions(child, ProcFs().maps(child).value());
  ASSERT_TRUE(libc.ok()) << libc.status();
  const RemoteFrame frame = build_remote_frame(
      state, libc->restorer, {reinterpret_cast<std::uint64_t>(&first_call), 4, 0},
      RemoteCall{reinterpret_cast<std::uint64_t>(&second_call), 7, 0}, "text");
  for (std::size_t at = 0; at < frame.bytes.size(); at += 8) {
    std::uint64_t piece = 0;
    std::memcpy(&piece, frame.bytes.data() + at, std::min<std::size_t>(8, frame.bytes.size() - at));
    ASSERT_EQ(ptrace(PTRACE_POKEDATA, child, frame.base + at, piece), 0);
  }
  ASSERT_EQ(ptrace(PTRACE_SETREGS, child, nullptr, &frame.regs), 0);
  // From here on no tracer is present, as if it had died.
  ASSERT_EQ(ptrace(PTRACE_DETACH, child, nullptr, nullptr), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace memprofd
