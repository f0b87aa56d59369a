#include "daemon/attach/injector.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/attach/agent_memfd.h"
#include "daemon/attach/ptrace_session.h"
#include "daemon/attach/stack_room.h"
#include "daemon/discover/proc_fs.h"
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
// Room for the images and what the dynamic linker needs below them.
constexpr std::uint64_t kStackRoomBytes = 64u << 10;

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
  InjectionRun(const Injection& injection, const std::atomic<bool>& cancelled,
               std::atomic<bool>& lacks_stack)
      : injection_(injection),
        target_(*injection.target),
        cancelled_(cancelled),
        lacks_stack_(lacks_stack),
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
    if (absl::Status status = use_stop(stop->tid); !status.ok()) {
      (void)session_.release(stop->tid);  // it goes on, with what it was made to call
      return status;
    }
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

  // A stop at the safe point with room on the stack; any other is passed on. Threads
  // without room are not looked at more often than hurry() is called.
  bool usable(SignalStop stop) {
    auto state = session_.state(stop.tid);
    if (!state.ok()) return false;
    if (!at_safe_point(*state)) {
      (void)session_.resume(stop.tid, stop.signal);
      return false;
    }
    if (!has_stack_room(target_.pid, state->regs.rsp, kStackRoomBytes)) {
      lacks_stack_ = true;
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
    loading_at_ = Clock::now();
    if (injection_.agent_path.empty()) {
      RETURN_IF_ERROR(put_frame({}, ""));
    } else if (!injection_.on_copied) {
      RETURN_IF_ERROR(
          call(tid, {injection_.libc.dlopen, kTextArgument, RTLD_NOW}, injection_.agent_path));
    } else {
      RETURN_IF_ERROR(load_copy(tid));
    }
    loaded_at_ = Clock::now();
    return call_poll(tid);
  }

  absl::Status load_copy(pid_t tid) {
    const std::uint64_t syscall = injection_.libc.syscall;
    const ProcFs proc;
    RETURN_IF_ERROR(
        call(tid, {syscall, SYS_memfd_create, kTextArgument, MFD_CLOEXEC | MFD_ALLOW_SEALING},
             std::string(kAgentMemfdName)));
    ASSIGN_OR_RETURN(const int fd, find_agent_memfd(proc, target_.pid));
    const absl::Status loaded = load_from(tid, proc, fd);
    const absl::Status closed = call(tid, {syscall, SYS_close, static_cast<std::uint64_t>(fd)}, "");
    return loaded.ok() ? closed : loaded;
  }

  absl::Status load_from(pid_t tid, const ProcFs& proc, int fd) {
    const std::string path = proc.path(target_.pid, absl::StrCat("fd/", fd));
    RETURN_IF_ERROR(fill_agent_memfd(path, injection_.agent_path));
    RETURN_IF_ERROR(injection_.on_copied(path));
    return call(tid, {injection_.libc.dlopen, kTextArgument, RTLD_NOW},
                absl::StrCat("/proc/self/fd/", fd));
  }

  // Has the stopped thread call a function, up to its next stop, which is in raise.
  absl::Status call(pid_t tid, RemoteCall function, const std::string& text) {
    RETURN_IF_ERROR(put_frame(function, text));
    RETURN_IF_ERROR(session_.set_registers(tid, frame_.regs));
    RETURN_IF_ERROR(session_.resume(tid, 0));
    RETURN_IF_ERROR(wait_called(tid));
    ASSIGN_OR_RETURN(state_, session_.state(tid));
    return absl::OkStatus();
  }

  // The image lies below all that the thread has on its stack: until its registers are
  // set, nothing has changed for it.
  absl::Status put_frame(RemoteCall function, const std::string& text) {
    frame_ = build_remote_frame(state_, injection_.libc.restorer, function,
                                {injection_.libc.raise, kSignal}, text);
    return write_stack(frame_);
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

  // Until the thread raises the signal that says: the function returned.
  absl::Status wait_called(pid_t tid) {
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
  absl::Status call_poll(pid_t tid) {
    auto agent = injection_.on_loaded();
    auto now = session_.state(tid);
    if (agent.ok() && now.ok()) {
      agent_ = *agent;
      RETURN_IF_ERROR(session_.set_registers(
          tid, registers_for_call(now->regs, {agent->poll_address}, frame_.frame2)));
    }
    RETURN_IF_ERROR(session_.release(tid));
    return agent.ok() ? now.status() : agent.status();
  }

  const Injection& injection_;
  const Target& target_;
  const std::atomic<bool>& cancelled_;
  std::atomic<bool>& lacks_stack_;
  PtraceSession session_;
  ThreadState state_;  // at the last stop
  RemoteFrame frame_;  // written last
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
    self->result_ = InjectionRun(self->injection_, self->cancelled_, self->lacks_stack_).run();
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

void Injector::look_again() {
  if (lacks_stack_.exchange(false)) injection_.kernel->arm_safe_point(kSignal);
}

std::optional<absl::StatusOr<InjectionResult>> Injector::result() const {
  if (!done_) return std::nullopt;
  return result_;
}

}  // namespace memprofd
