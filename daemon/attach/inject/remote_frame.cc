// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/remote_frame.h"

#include <cpuid.h>

#include <algorithm>
#include <cstring>

namespace memprofd {
namespace {

// The ABI allows a function to keep data in the 128 bytes below the stack pointer.
constexpr std::uint64_t kRedZoneBytes = 128;
constexpr std::uint64_t kTrapFlag = 1u << 8;

// uc_flags (asm/ucontext.h): extended FP state present, ss valid, restore ss as it is.
constexpr std::uint64_t kUcFlags = 1 | 2 | 4;
// An invalid stack mode: rt_sigreturn leaves the thread's alternate stack alone.
constexpr std::uint32_t kKeepAlternateStack = 0x7f;

// Magic numbers in the software bytes of an extended FP state (asm/sigcontext.h).
constexpr std::uint32_t kXstateMagic1 = 0x46505853;
constexpr std::uint32_t kXstateMagic2 = 0x46505845;
constexpr std::size_t kLegacyFpBytes = 512;
constexpr std::size_t kXstateHeaderBytes = 64;
constexpr std::size_t kSoftwareBytesOffset = 464;

struct FpSoftwareBytes {
  std::uint32_t magic1;
  std::uint32_t extended_size;
  std::uint64_t xfeatures;
  std::uint32_t xstate_size;
  std::uint32_t padding[7];
};
static_assert(sizeof(FpSoftwareBytes) == 48);

// struct rt_sigframe of the kernel up to the signal mask.
struct SignalFrame {
  std::uint64_t restorer;
  std::uint64_t uc_flags;
  std::uint64_t uc_link;
  std::uint64_t stack_sp;
  std::uint32_t stack_flags;
  std::uint32_t stack_padding;
  std::uint64_t stack_size;
  std::uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
  std::uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
  std::uint16_t cs, gs, fs, ss;
  std::uint64_t error, trap, old_mask, cr2;
  std::uint64_t fpstate;
  std::uint64_t reserved[8];
  std::uint64_t signal_mask;
  std::uint64_t siginfo[16];
};
static_assert(offsetof(SignalFrame, r8) == 8 + 40);
static_assert(offsetof(SignalFrame, signal_mask) == 8 + 40 + 256);

SignalFrame make_frame(const user_regs_struct& r, std::uint64_t mask, std::uint64_t fpstate,
                       std::uint64_t restorer) {
  SignalFrame f{};
  f.restorer = restorer;
  f.uc_flags = kUcFlags;
  f.stack_flags = kKeepAlternateStack;
  f.r8 = r.r8, f.r9 = r.r9, f.r10 = r.r10, f.r11 = r.r11;
  f.r12 = r.r12, f.r13 = r.r13, f.r14 = r.r14, f.r15 = r.r15;
  f.rdi = r.rdi, f.rsi = r.rsi, f.rbp = r.rbp, f.rbx = r.rbx;
  f.rdx = r.rdx, f.rax = r.rax, f.rcx = r.rcx;
  f.rsp = r.rsp, f.rip = r.rip, f.eflags = r.eflags & ~kTrapFlag;
  f.cs = static_cast<std::uint16_t>(r.cs);
  f.ss = static_cast<std::uint16_t>(r.ss);
  f.fpstate = fpstate;
  f.signal_mask = mask;
  return f;
}

template <typename T>
T value_at(const std::vector<std::byte>& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Features that a thread has only after requesting them. ptrace always reports these features and
// their space; rt_sigreturn accepts only those that the thread has.
constexpr std::uint64_t kAskedForFeatures = 3u << 17;  // AMX

// The features to restore: those that every thread has, and the used ones of the others.
std::uint64_t features_of(const std::vector<std::byte>& xstate) {
  const auto in_use = value_at<std::uint64_t>(xstate, kLegacyFpBytes);
  const auto enabled = value_at<std::uint64_t>(xstate, kSoftwareBytesOffset);
  return enabled & (in_use | ~kAskedForFeatures);
}

// The FP state with the marks that make rt_sigreturn restore all of it.
std::vector<std::byte> make_fpstate(std::vector<std::byte> xstate) {
  if (xstate.size() < kLegacyFpBytes) xstate.resize(kLegacyFpBytes);
  const bool extended = xstate.size() >= kLegacyFpBytes + kXstateHeaderBytes;
  FpSoftwareBytes marks{};
  if (extended) {
    // ptrace puts the enabled feature mask where the software bytes go.
    marks.xfeatures = features_of(xstate);
    xstate.resize(std::min(xstate.size(), xstate_bytes(marks.xfeatures)));
    marks.magic1 = kXstateMagic1;
    marks.xstate_size = static_cast<std::uint32_t>(xstate.size());
    marks.extended_size = marks.xstate_size + sizeof(kXstateMagic2);
  }
  std::memcpy(xstate.data() + kSoftwareBytesOffset, &marks, sizeof(marks));
  if (extended) {
    const auto* magic2 = reinterpret_cast<const std::byte*>(&kXstateMagic2);
    xstate.insert(xstate.end(), magic2, magic2 + sizeof(kXstateMagic2));
  }
  return xstate;
}

std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) {
  return value & ~(alignment - 1);
}

// rsp at a function's entry is 8 below a multiple of 16.
std::uint64_t frame_address(std::uint64_t top) {
  return align_down(top - sizeof(SignalFrame), 16) - 8;
}

// The second call's stack begins this far below F2, so that the stack pointer distinguishes the two
// calls.
constexpr std::uint64_t kSecondCallBytes = 2048;

}  // namespace

std::size_t xstate_bytes(std::uint64_t features) {
  std::size_t bytes = kLegacyFpBytes + kXstateHeaderBytes;
  for (unsigned feature = 2; feature < 63; ++feature) {
    unsigned size = 0, offset = 0, flags = 0, unused = 0;
    if ((features >> feature & 1) != 0 &&
        __get_cpuid_count(0xd, feature, &size, &offset, &flags, &unused) != 0)
      bytes = std::max<std::size_t>(bytes, offset + size);
  }
  return bytes;
}

bool in_second_call(const RemoteFrame& frame, std::uint64_t stack_pointer) {
  return frame.frame1 < stack_pointer && stack_pointer <= frame.frame2;
}

user_regs_struct registers_for_call(const user_regs_struct& now, RemoteCall call,
                                    std::uint64_t frame) {
  user_regs_struct regs = now;
  regs.rip = call.function;
  regs.rdi = call.argument1;
  regs.rsi = call.argument2;
  regs.rdx = call.argument3;
  regs.rax = 0;
  regs.rsp = frame;
  // Restarts no system call; clears the direction flag, as the ABI requires.
  regs.orig_rax = ~0ULL;
  regs.eflags &= ~(kTrapFlag | (1u << 10));
  return regs;
}

RemoteFrame build_remote_frame(const ThreadState& state, std::uint64_t restorer, RemoteCall first,
                               std::optional<RemoteCall> second, const std::string& text) {
  const std::vector<std::byte> fpstate = make_fpstate(state.xstate);
  const std::uint64_t text_at = align_down(state.regs.rsp - kRedZoneBytes - text.size() - 1, 64);
  const std::uint64_t fp_at = align_down(text_at - fpstate.size(), 64);
  const std::uint64_t frame2_at = frame_address(fp_at);
  const std::uint64_t lowest = second ? frame_address(frame2_at - kSecondCallBytes) : frame2_at;

  RemoteFrame result;
  result.base = lowest;
  result.text_address = text_at;
  result.frame1 = lowest;
  result.frame2 = frame2_at;
  if (first.argument1 == kTextArgument) first.argument1 = text_at;
  if (first.argument2 == kTextArgument) first.argument2 = text_at;

  result.bytes.resize(text_at + text.size() + 1 - lowest);
  auto put = [&](std::uint64_t at, const void* data, std::size_t size) {
    std::memcpy(result.bytes.data() + (at - lowest), data, size);
  };
  const SignalFrame frame2 = make_frame(state.regs, state.signal_mask, fp_at, restorer);
  put(frame2_at, &frame2, sizeof(frame2));
  if (second) {
    const auto second_regs = registers_for_call(state.regs, *second, frame2_at);
    const SignalFrame frame1 = make_frame(second_regs, state.signal_mask, fp_at, restorer);
    put(lowest, &frame1, sizeof(frame1));
  }
  put(fp_at, fpstate.data(), fpstate.size());
  put(text_at, text.c_str(), text.size() + 1);
  result.regs = registers_for_call(state.regs, first, lowest);
  return result;
}

}  // namespace memprofd
