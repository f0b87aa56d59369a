#include "daemon/attach/injector.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/attach/ptrace_session.h"
#include "daemon/attach/stack_room.h"
#include "daemon/discover/process_memory.h"
#include "daemon/util/fd.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSignal = SIGURG;
// The stop may come before or after the probed instruction.
constexpr std::uint64_t kSafePointBytes = 16;
constexpr auto kHurryInterval = std::chrono::milliseconds(20);
constexpr auto kPollInterval = std::chrono::microseconds(200);
// dlopen takes half a millisecond; longer means a slow disk or a held lock.
constexpr auto kLoadPatience = std::chrono::seconds(2);
// Room that the dynamic linker may need below the image.
constexpr std::uint64_t kStackRoomBytes = 256 * 1024;

class InjectionRun {
 public:
  explicit InjectionRun(const Injection& injection)
      : injection_(injection), target_(*injection.target), session_(target_.pid) {}

  absl::StatusOr<InjectionResult> run(std::chrono::milliseconds patience) {
    RETURN_IF_ERROR(session_.seize());
    injection_.kernel->arm_safe_point(kSignal);
    auto stop = wait_at_safe_point(Clock::now() + patience);
    injection_.kernel->disarm_safe_point();
    if (!stop.ok()) {
      swallow_late_signal();
      return stop.status();
    }
    const auto stopped_at = Clock::now();
    RETURN_IF_ERROR(use_stop(stop->tid));
    return InjectionResult{std::chrono::duration<double>(Clock::now() - stopped_at).count()};
  }

 private:
  // Makes the next allocation take the slow path. Losing a race with the
  // runtime's own update is harmless: the next call tries again.
  void hurry() const {
    std::uint64_t limit = 0;
    const std::uint64_t state = target_.caml_state_address;
    if (!target_.memory->read_value(state + target_.abi.young_alloc_end, limit).ok()) return;
    (void)write_process_memory(target_.pid, state + target_.abi.young_limit,
                               std::as_bytes(std::span<std::uint64_t, 1>(&limit, 1)));
  }

  bool at_safe_point(const ThreadState& state) const {
    const std::uint64_t begin = target_.safe_point.address;
    return begin <= state.regs.rip && state.regs.rip < begin + kSafePointBytes;
  }

  absl::StatusOr<SignalStop> wait_at_safe_point(Clock::time_point deadline) {
    auto next_hurry = Clock::now();
    while (Clock::now() < deadline) {
      if (Clock::now() >= next_hurry) {
        hurry();
        next_hurry = Clock::now() + kHurryInterval;
      }
      auto stop = session_.poll(kSignal);
      if (session_.gone()) {
        return absl::NotFoundError(absl::StrCat("pid ", target_.pid, " ended during the attach"));
      }
      if (!stop) {
        std::this_thread::sleep_for(kPollInterval);
        continue;
      }
      if (usable(*stop)) return *stop;
    }
    return absl::UnavailableError(
        absl::StrCat("pid ", target_.pid, " has not allocated yet (idle, blocked or stopped)"));
  }

  // A stop at the safe point with room on the stack; any other is passed on.
  bool usable(SignalStop stop) {
    auto state = session_.state(stop.tid);
    if (!state.ok()) return false;
    if (!at_safe_point(*state)) {
      (void)session_.resume(stop.tid, stop.signal);
      return false;
    }
    if (!has_stack_room(target_.pid, state->regs.rsp, kStackRoomBytes)) {
      (void)session_.resume(stop.tid, 0);
      injection_.kernel->arm_safe_point(kSignal);
      return false;
    }
    state_ = *std::move(state);
    return true;
  }

  // The probe may have fired just before it was disarmed.
  void swallow_late_signal() {
    if (auto stop = session_.poll(kSignal)) (void)session_.resume(stop->tid, 0);
  }

  absl::Status use_stop(pid_t tid) {
    const RemoteFrame frame = build_remote_frame(
        state_, injection_.libc.restorer, {injection_.libc.dlopen, kTextArgument, RTLD_NOW},
        {injection_.libc.raise, kSignal}, injection_.agent_path);
    RETURN_IF_ERROR(write_stack(frame));
    if (!injection_.agent_path.empty()) {
      RETURN_IF_ERROR(session_.set_registers(tid, frame.regs));
      RETURN_IF_ERROR(session_.resume(tid, 0));
      RETURN_IF_ERROR(wait_loaded(tid));
    }
    return call_poll(tid, frame);
  }

  // Through /proc/PID/mem, which grows the stack where process_vm_writev does not.
  absl::Status write_stack(const RemoteFrame& frame) const {
    const std::string path = absl::StrCat("/proc/", target_.pid, "/mem");
    UniqueFd mem(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!mem) return absl::InternalError(absl::StrCat("open ", path, ": ", strerror(errno)));
    const auto written = ::pwrite(mem.get(), frame.bytes.data(), frame.bytes.size(),
                                  static_cast<off_t>(frame.base));
    if (written != static_cast<ssize_t>(frame.bytes.size())) {
      return absl::InternalError(absl::StrCat("write to the stack of pid ", target_.pid, ": ",
                                              written < 0 ? strerror(errno) : "short write"));
    }
    return absl::OkStatus();
  }

  // Until the thread raises the signal that says: dlopen returned.
  absl::Status wait_loaded(pid_t tid) {
    const auto deadline = Clock::now() + kLoadPatience;
    while (Clock::now() < deadline) {
      auto stop = session_.poll(kSignal);
      if (session_.gone()) {
        return absl::NotFoundError(absl::StrCat("pid ", target_.pid, " ended during the attach"));
      }
      if (stop && stop->tid == tid) return absl::OkStatus();
      if (stop) (void)session_.resume(stop->tid, stop->signal);
      if (!stop) sched_yield();
    }
    return absl::DeadlineExceededError(
        absl::StrCat("pid ", target_.pid, ": loading ", injection_.agent_path,
                     " takes longer than 2 s (slow disk?); it goes on by itself, attach again"));
  }

  // The thread runs on its own from here: poll returns into the program.
  absl::Status call_poll(pid_t tid, const RemoteFrame& frame) {
    auto poll_address = injection_.on_loaded();
    auto now = session_.state(tid);
    if (poll_address.ok() && now.ok()) {
      RETURN_IF_ERROR(session_.set_registers(
          tid, registers_for_call(now->regs, {*poll_address, 0, 0}, frame.frame2)));
    }
    RETURN_IF_ERROR(session_.release(tid));
    return poll_address.ok() ? now.status() : poll_address.status();
  }

  const Injection& injection_;
  const Target& target_;
  PtraceSession session_;
  ThreadState state_;
};

}  // namespace

absl::StatusOr<InjectionResult> inject(const Injection& injection,
                                       std::chrono::milliseconds patience) {
  const Target& target = *injection.target;
  RETURN_IF_ERROR(
      injection.kernel->attach_safe_point(target.exe_path, target.safe_point.file_offset));
  absl::StatusOr<InjectionResult> result = absl::InternalError("injection did not run");
  // The end of this thread is what releases the seized threads.
  std::thread([&] { result = InjectionRun(injection).run(patience); }).join();
  injection.kernel->detach_safe_point();
  return result;
}

}  // namespace memprofd
