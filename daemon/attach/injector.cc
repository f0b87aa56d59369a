#include "daemon/attach/injector.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/attach/ptrace_session.h"
#include "daemon/attach/stack_room.h"
#include "daemon/util/fd.h"
#include "daemon/util/status_macros.h"
#include "spdlog/spdlog.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSignal = SIGURG;
// Ends a blocking waitpid of the injector's thread.
constexpr int kWakeSignal = SIGUSR2;
// The stop may come before or after the probed instruction.
constexpr std::uint64_t kSafePointBytes = 16;
// dlopen takes half a millisecond; longer means a slow disk or a held lock.
constexpr auto kLoadPatience = std::chrono::seconds(2);
constexpr auto kLoadPoll = std::chrono::microseconds(20);
// Room that the dynamic linker may need below the image.
constexpr std::uint64_t kStackRoomBytes = 256u << 10;

void ignore_wake_signal(int) {}

// Without SA_RESTART, so that waitpid returns.
void install_wake_signal() {
  struct sigaction action {};
  action.sa_handler = ignore_wake_signal;
  sigaction(kWakeSignal, &action, nullptr);
}

// While a thread of the target stands still, nobody goes before us. Without the
// privilege it only takes longer. The thread hardly runs: it waits or sleeps.
void take_priority() {
  const sched_param parameters{.sched_priority = 1};
  (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
}

std::int64_t us(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::microseconds>(to - from).count();
}

// The work of the injector's thread.
class InjectionRun {
 public:
  InjectionRun(const Injection& injection, const std::atomic<bool>& cancelled)
      : injection_(injection),
        target_(*injection.target),
        cancelled_(cancelled),
        session_(target_.pid) {}

  absl::StatusOr<InjectionResult> run() {
    RETURN_IF_ERROR(session_.seize());
    injection_.kernel->arm_safe_point(kSignal);
    auto stop = wait_at_safe_point();
    injection_.kernel->disarm_safe_point();
    if (!stop.ok()) {
      swallow_late_signal();
      return stop.status();
    }
    RETURN_IF_ERROR(use_stop(stop->tid));
    spdlog::debug("pid {}: stopped {} us: {} before the load, {} loading, {} after", target_.pid,
                  us(stopped_at_, Clock::now()), us(stopped_at_, loading_at_),
                  us(loading_at_, loaded_at_), us(loaded_at_, Clock::now()));
    return InjectionResult{agent_,
                           std::chrono::duration<double>(Clock::now() - stopped_at_).count()};
  }

 private:
  absl::Status ended() const {
    return absl::NotFoundError(absl::StrCat("pid ", target_.pid, " ended during the attach"));
  }

  bool at_safe_point(const ThreadState& state) const {
    const std::uint64_t begin = target_.safe_point.address;
    return begin <= state.regs.rip && state.regs.rip < begin + kSafePointBytes;
  }

  absl::StatusOr<SignalStop> wait_at_safe_point() {
    while (!cancelled_) {
      const auto stop = session_.wait(kSignal);
      stopped_at_ = Clock::now();
      if (session_.gone()) return ended();
      if (stop && usable(*stop)) return *stop;
    }
    return absl::CancelledError("the attach was given up");
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
      injection_.kernel->arm_safe_point(kSignal);
      (void)session_.resume(stop.tid, 0);
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
    loading_at_ = loaded_at_ = Clock::now();
    if (!injection_.agent_path.empty()) {
      RETURN_IF_ERROR(session_.set_registers(tid, frame.regs));
      RETURN_IF_ERROR(session_.resume(tid, 0));
      RETURN_IF_ERROR(wait_loaded(tid));
      loaded_at_ = Clock::now();
    }
    return call_poll(tid, frame);
  }

  // Through /proc/PID/mem, which grows the stack where process_vm_writev does not.
  absl::Status write_stack(const RemoteFrame& frame) const {
    const std::string path = absl::StrCat("/proc/", target_.pid, "/mem");
    UniqueFd mem(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!mem) return absl::InternalError(absl::StrCat("open ", path, ": ", strerror(errno)));
    const auto written =
        ::pwrite(mem.get(), frame.bytes.data(), frame.bytes.size(), static_cast<off_t>(frame.base));
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
      if (session_.gone()) return ended();
      if (stop && stop->tid == tid) return absl::OkStatus();
      if (stop) (void)session_.resume(stop->tid, stop->signal);
      if (!stop) std::this_thread::sleep_for(kLoadPoll);
    }
    return absl::DeadlineExceededError(
        absl::StrCat("pid ", target_.pid, ": loading ", injection_.agent_path,
                     " takes longer than 2 s (slow disk?); it goes on by itself, attach again"));
  }

  // The thread runs on its own from here: poll returns into the program.
  absl::Status call_poll(pid_t tid, const RemoteFrame& frame) {
    auto agent = injection_.on_loaded();
    auto now = session_.state(tid);
    if (agent.ok() && now.ok()) {
      agent_ = *agent;
      RETURN_IF_ERROR(session_.set_registers(
          tid, registers_for_call(now->regs, {agent->poll_address, 0, 0}, frame.frame2)));
    }
    RETURN_IF_ERROR(session_.release(tid));
    return agent.ok() ? now.status() : agent.status();
  }

  const Injection& injection_;
  const Target& target_;
  const std::atomic<bool>& cancelled_;
  PtraceSession session_;
  ThreadState state_;
  AgentLocation agent_;
  Clock::time_point stopped_at_, loading_at_, loaded_at_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Injector>> Injector::start(Injection injection) {
  const Target& target = *injection.target;
  RETURN_IF_ERROR(
      injection.kernel->attach_safe_point(target.exe_path, target.safe_point.file_offset));
  install_wake_signal();
  std::unique_ptr<Injector> injector(new Injector(std::move(injection)));
  injector->thread_ = std::thread([self = injector.get()] {
    take_priority();
    self->result_ = InjectionRun(self->injection_, self->cancelled_).run();
    self->done_ = true;
  });
  return injector;
}

Injector::~Injector() {
  cancelled_ = true;
  // The thread may be on its way into waitpid: repeat until it has seen it.
  while (!done_) {
    pthread_kill(thread_.native_handle(), kWakeSignal);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  thread_.join();
  injection_.kernel->detach_safe_point();
}

std::optional<absl::StatusOr<InjectionResult>> Injector::result() const {
  if (!done_) return std::nullopt;
  return result_;
}

}  // namespace memprofd
