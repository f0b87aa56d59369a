// The stack image is run for real here: a thread of this process is made to call
// two functions and to resume, with nobody's help after the registers are set.

#include "daemon/attach/remote_frame.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "daemon/attach/libc_functions.h"
#include "daemon/attach/ptrace_session.h"

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
  const RemoteFrame frame =
      build_remote_frame(state, kRestorer, {0x1000, kTextArgument, 2}, {0x2000, 3, 0}, "/a/b.so");
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
      build_remote_frame(example_state(), kRestorer, {0x1000, 0, 0}, {0x2000, 0, 0}, "");
  EXPECT_EQ(frame.regs.eflags & 0x100, 0u);
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
  PtraceSession session(child);
  const auto state = session.state(child);
  const auto libc = find_libc_functions(child);
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(libc.ok()) << libc.status();
  const RemoteFrame frame = build_remote_frame(
      *state, libc->restorer, {reinterpret_cast<std::uint64_t>(&first_call), 4, 0},
      {reinterpret_cast<std::uint64_t>(&second_call), 7, 0}, "text");
  for (std::size_t at = 0; at < frame.bytes.size(); at += 8) {
    std::uint64_t piece = 0;
    std::memcpy(&piece, frame.bytes.data() + at, std::min<std::size_t>(8, frame.bytes.size() - at));
    ASSERT_EQ(ptrace(PTRACE_POKEDATA, child, frame.base + at, piece), 0);
  }
  ASSERT_TRUE(session.set_registers(child, frame.regs).ok());
  // From here on nobody watches, as if the tracer had died.
  ASSERT_EQ(ptrace(PTRACE_DETACH, child, nullptr, nullptr), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace memprofd
