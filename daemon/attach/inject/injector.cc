// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/injector.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_memfd.h"
#include "daemon/attach/inject/borrowed_thread.h"
#include "daemon/attach/inject/other_processor.h"
#include "daemon/attach/inject/ptrace_session.h"
#include "daemon/attach/inject/stack_room.h"
#include "daemon/attach/inject/waiting_program.h"
#include "daemon/attach/kernel/kernel_config.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/util/clock.h"
#include "daemon/util/guard.h"
#include "daemon/util/log.h"
#include "daemon/util/open_files.h"
#include "daemon/util/read_in.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/threads/start_thread.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

constexpr int kSignal = BorrowedThread::kSignal;
// The stop may come before or after the probed instruction.
constexpr std::uint64_t kSafePointBytes = 16;
// How long a thread that did not wait is held at its next pass: first value and maximum.
constexpr milliseconds kFirstHold{20};
constexpr milliseconds kLongestHold{500};
// Time for which a signal may still be sent, in case memprofd is frozen now.
constexpr milliseconds kLease{20};
// A signal that was sent stops its thread on its way out of the probe.
constexpr milliseconds kStopPatience{1000};
// Time after which threads that could not be used are asked again.
constexpr milliseconds kAskAgain{500};
// Time after which a waiting program is examined again if no thread could be used.
constexpr milliseconds kTryAgain{100};
// A thread at a sample point is looked for at this interval, so it has waited for half of it on
// average, and is interrupted this often until it is in the function in which it can be used.
constexpr milliseconds kPointPoll{1};
constexpr std::uint64_t kPointWaitNs = std::chrono::nanoseconds(kPointPoll).count() / 2;
constexpr int kPointTries = 10;

// While a thread of the target is stopped, no other thread should preempt this one. Without the
// privilege the stop only takes longer. The thread rarely runs: it waits or sleeps.
void take_priority() {
  const sched_param parameters{.sched_priority = 1};
  (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
}

// Returns false when the time is over.
bool is_readable(int fd, milliseconds time) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, static_cast<int>(time.count())) > 0;
}

bool blocks(const ProcessStatus& status, int signal) {
  return (status.signals_blocked >> (signal - 1) & 1) != 0;
}

}  // namespace

std::string_view obstacle_text(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kNone:
      return "";
    case Obstacle::kStack:
      return "waiting for a thread with 64 KiB of free stack to run the agent's code on; raise the "
             "program's stack limit (ulimit -s)";
    case Obstacle::kSignalBlocked:
      return "waiting for a thread that does not block SIGURG, which memprofd uses to stop it; "
             "unblock it in the program";
    case Obstacle::kTraced:
      return "waiting for the program's tracer (a debugger?); detach it";
    case Obstacle::kNoThread:
      return "waiting until memprofd may start another thread; raise the limit of its threads "
             "(TasksMax=, ulimit -u)";
  }
  std::abort();
}

// One attempt, run on its own thread: a thread reports itself, and the agent is called on it. If
// the outcome holds nothing, the attempt failed and can be repeated.
class Injector::InjectionAttempt {
 public:
  using Outcome = absl::StatusOr<std::optional<InjectionResult>>;

  explicit InjectionAttempt(Injector& injector)
      : injector_(injector),
        injection_(injector.injection_),
        target_(*injector.injection_.target),
        safe_point_(injector.safe_point_.get()),
        session_(&injector.given_up_) {}

  Outcome run() {
    keep_off_processors_of(ProcFs(), target_.pid);
    if (safe_point_ == nullptr) return use_without_probe();
    safe_point_->watch();
    const bool tries_again = !injector_.why_not_waiting().empty();
    const auto hit =
        safe_point_->wait_hit(injector_.cancel_.get(), tries_again ? kTryAgain : kAskAgain);
    if (!hit) {
      // The program may have called exec before it was watched for that.
      if (absl::IsNotFound(target_.memory->check())) return replaced();
      safe_point_->skip_none();
      injector_.find_stack();
      return injection_.while_waiting && !injector_.given_up_ ? use_waiting()
                                                              : Outcome(std::nullopt);
    }
    injector_.note_waiting("");
    hit_ = *hit;
    const auto tid = usable_thread();
    Outcome outcome = tid ? use(*tid) : Outcome(std::nullopt);
    swallow_late_signal();
    return outcome;
  }

 private:
  // The thread's id in our namespace, if it exists and can take the signal. The thread waits
  // meanwhile, so nothing is read twice.
  std::optional<pid_t> usable_thread() {
    const auto tid = thread_that_hit();
    if (!tid) return std::nullopt;
    if (blocks(thread_, kSignal)) return refuse(Obstacle::kSignalBlocked);
    if (thread_.tracer_pid != 0) return refuse(Obstacle::kTraced);
    note_filters();
    return tid;
  }

  void note_filters() {
    one_set_of_filters_ =
        thread_.seccomp == 0 || has_one_set_of_filters(target_.pid, thread_).value_or(false);
  }

  // BPF reports the host's thread id; memprofd may be in a pid namespace.
  std::optional<pid_t> thread_that_hit() {
    const auto is_it = [&](int tid) {
      auto status = ProcFs().thread_status(target_.pid, tid);
      const bool is = status.ok() && !status->ns_pids.empty() &&
                      static_cast<std::uint32_t>(status->ns_pids.back()) == hit_.own_tid;
      if (is) thread_ = *std::move(status);
      return is;
    };
    if (is_it(static_cast<int>(hit_.tid))) return static_cast<pid_t>(hit_.tid);
    const auto tasks = ProcFs().tasks(target_.pid);
    if (!tasks.ok()) return std::nullopt;
    const auto found = std::find_if(tasks->begin(), tasks->end(), is_it);
    return found == tasks->end() ? std::nullopt : std::optional<pid_t>(*found);
  }

  std::nullopt_t refuse(Obstacle obstacle) {
    injector_.obstacle_ = obstacle;
    if (safe_point_ != nullptr) safe_point_->skip(hit_);
    return std::nullopt;
  }

  Outcome use(pid_t tid) {
    const absl::Status seized = session_.seize(tid);
    if (absl::IsAlreadyExists(seized)) return refuse(Obstacle::kTraced);
    if (absl::IsNotFound(seized)) return std::nullopt;
    RETURN_IF_ERROR(seized);
    if (safe_point_ != nullptr) safe_point_->open(hit_, kSignal, kLease);
    // Checks, while the thread comes to its stop, that the program is still the inspected one.
    // After the seizure an exec is reported.
    const absl::Status same = target_.memory->check();
    if (safe_point_ != nullptr ? !wait_at_safe_point() : !stop_at_sample_point()) {
      if (session_.exec_seen()) return replaced();
      if (safe_point_ != nullptr) ++injector_.misses_;
      return std::nullopt;
    }
    absl::StatusOr<ThreadState> state = session_.state();
    if (absl::IsNotFound(state.status())) return std::nullopt;
    RETURN_IF_ERROR(state.status());
    if (!has_stack_room(target_.pid, injector_.main_stack_, state->regs.rsp, kStackRoomBytes)) {
      (void)session_.resume(0);
      return refuse(Obstacle::kStack);
    }
    if (absl::Status filtered = inspect_filters(); !filtered.ok()) {
      (void)session_.resume(0);
      injector_.gave_up_ = true;
      return filtered;
    }
    RETURN_IF_ERROR(same);  // before anything is written
    injector_.obstacle_ = Obstacle::kNone;
    BorrowedThread thread(target_, injection_.libc, session_, tid, *std::move(state));
    if (!injection_.callback) return load_and_poll(thread);
    Outcome outcome = run_callback(thread);
    return absl::IsUnavailable(outcome.status()) ? Outcome(std::nullopt) : outcome;
  }

  // No probe is placed: uses a thread that waits, or one that a sample brings to the agent.
  Outcome use_without_probe() {
    if (absl::IsNotFound(target_.memory->check())) return replaced();
    injector_.find_stack();
    Outcome outcome = use_waiting();
    const bool used = !outcome.ok() || *outcome || !session_.gone() || injector_.given_up_;
    if (used) return outcome;
    if (injection_.sample_point) return use_sample_point(*injector_.injection_.sample_point);
    (void)is_readable(injector_.cancel_.get(), kTryAgain);
    return std::nullopt;
  }

  // The thread runs on, and no other one waits, as soon as this ends. A refused thread would come
  // again with its next sample, so the program rests for longer and longer.
  Outcome use_sample_point(SamplePoint& point) {
    if (injector_.refused_ > 0) {
      (void)is_readable(injector_.cancel_.get(),
                        kTryAgain * (1 << std::min(injector_.refused_, 5)));
    }
    const auto until = std::chrono::steady_clock::now() + kTryAgain;
    std::optional<int> held;
    point.want();
    while (!held && std::chrono::steady_clock::now() < until) {
      if (is_readable(injector_.cancel_.get(), kPointPoll)) break;
      held = point.waiting();
    }
    const absl::Cleanup release = [&point] { point.release(); };
    if (!held || injector_.given_up_) return std::nullopt;
    hit_ = {};
    hit_.tid = hit_.own_tid = static_cast<std::uint32_t>(*held);
    stopped_at_ = monotonic_ns() - kPointWaitNs;
    const auto tid = usable_thread();
    Outcome outcome = tid ? use(*tid) : Outcome(std::nullopt);
    injector_.refused_ = outcome.ok() && !*outcome ? injector_.refused_ + 1 : 0;
    return outcome;
  }

  // False: the thread was interrupted elsewhere, and runs on.
  bool stop_at_sample_point() {
    for (int tries = 0; tries < kPointTries; ++tries) {
      if (!session_.interrupt(false, kStopPatience).ok()) return false;
      const auto state = session_.state();
      if (!state.ok()) return false;
      if (injection_.sample_point->is_held_at(state->regs.rip)) {
        injection_.sample_point->release();
        return true;
      }
      if (!session_.resume(0).ok()) return false;
    }
    return false;
  }

  // No thread has passed the safe point, so a waiting one is tried. A failure leaves that thread as
  // it was.
  Outcome use_waiting() {
    if (!injector_.locks_) injector_.locks_ = RuntimeLocks::find(target_);
    const auto& locks = *injector_.locks_;
    if (!locks.ok()) return not_now(locks.status());
    const auto program = WaitingProgram::inspect(target_, *locks, injector_.unusable_);
    if (!program.ok()) return not_now(program.status());
    auto status = ProcFs().thread_status(target_.pid, program->tid());
    if (!status.ok()) return not_now(status.status());
    thread_ = *std::move(status);
    note_filters();
    stopped_at_ = monotonic_ns();
    auto stopped = stop_in_call(*program, session_);
    if (absl::IsAlreadyExists(stopped.status())) {
      injector_.obstacle_ = Obstacle::kTraced;
      return std::nullopt;
    }
    if (session_.exec_seen()) return replaced();
    if (absl::IsNotFound(stopped.status())) return std::nullopt;
    if (absl::IsUnavailable(stopped.status())) return not_now(stopped.status());
    RETURN_IF_ERROR(stopped.status());
    if (const absl::Status may = check_stopped(stopped->state); !may.ok()) {
      resume_program(stopped->state.regs, session_);
      return absl::IsUnavailable(may) ? not_now(may) : Outcome(may);
    }
    injector_.obstacle_ = Obstacle::kNone;
    BorrowedThread thread(target_, injection_.libc, session_, *program, stopped->waits,
                          std::move(stopped->state));
    Outcome outcome = injection_.callback ? run_callback(thread) : load_and_poll(thread);
    if (!absl::IsUnavailable(outcome.status())) return outcome;
    if (thread.is_unusable()) injector_.unusable_.insert(program->tid());
    return not_now(outcome.status());
  }

  absl::Status check_stopped(const ThreadState& state) {
    if (!has_stack_room(target_.pid, injector_.main_stack_, state.regs.rsp, kStackRoomBytes)) {
      injector_.obstacle_ = Obstacle::kStack;
      return absl::UnavailableError("its thread has no stack left");
    }
    if (absl::Status filtered = inspect_filters(); !filtered.ok()) {
      injector_.gave_up_ = true;
      return filtered;
    }
    // The kernel may continue the call by restart_syscall. If the thread is stopped at the entry of
    // a system call, restoring its registers cancels that call, and the kernel runs the filter with
    // the call number -1: a filter with an allow list would then kill the program.
    static constexpr FilteredCall kRestart[] = {{SYS_restart_syscall, "restart_syscall", {}},
                                                {~0u, "a cancelled system call", {}}};
    if (thread_.seccomp != 0 && !check_filters(session_, target_.pid, kRestart).ok()) {
      return absl::UnavailableError("its seccomp filter may not let its wait be restarted");
    }
    return target_.memory->check();
  }

  std::nullopt_t not_now(const absl::Status& why) {
    injector_.note_waiting(std::string(why.message()));
    return std::nullopt;
  }

  absl::Status inspect_filters() const {
    if (thread_.seccomp == 0 || injection_.filters_allow) return absl::OkStatus();
    if (!one_set_of_filters_) {
      return absl::FailedPreconditionError(
          absl::StrCat("pid ", target_.pid, " has threads under different seccomp filters"));
    }
    return check_filters(session_, target_.pid, injection_.calls);
  }

  // True if our signal stopped it: the gate confirms that it was sent to this thread in the probe.
  bool wait_at_safe_point() {
    const auto ours = [this](const SignalStop& stop) {
      if (stop.signal != kSignal || stop.code != SI_KERNEL) return false;
      const auto state = session_.state();
      const std::uint64_t begin =
          injection_.place ? injection_.place->address : target_.safe_point.address;
      return state.ok() && begin <= state->regs.rip && state->regs.rip < begin + kSafePointBytes;
    };
    const milliseconds hold =
        std::min(kFirstHold * (1 << std::min(injector_.misses_, 10)), kLongestHold);
    for (milliseconds held{0}; held < hold && !session_.gone(); held += kLease / 2) {
      safe_point_->renew(kLease);
      if (session_.wait_signal(ours, kLease / 2)) return stopped();
    }
    return safe_point_->close() && session_.wait_signal(ours, kStopPatience) && stopped();
  }

  bool stopped() {
    safe_point_->close();
    const std::uint64_t now = monotonic_ns();
    const bool waited = now - hit_.time_ns < 2 * MEMPROF_HIT_WAIT_NS;
    stopped_at_ = waited ? hit_.time_ns : now;
    injector_.misses_ = 0;
    return true;
  }

  // The signal may have been sent just before the gate was closed.
  void swallow_late_signal() {
    if (!safe_point_->close() || session_.gone()) return;
    const auto ours = [](const SignalStop& stop) {
      return stop.signal == kSignal && stop.code == SI_KERNEL;
    };
    if (session_.wait_signal(ours, kStopPatience)) (void)session_.resume(0);
  }

  Outcome run_callback(BorrowedThread& thread) {
    RETURN_IF_ERROR(injection_.callback(thread, stopped_at_));
    return InjectionResult{};
  }

  Outcome load_and_poll(BorrowedThread& thread) {
    auto loaded = load(thread);
    const std::uint64_t loaded_at = monotonic_ns();
    auto agent = loaded.ok() ? injection_.on_loaded(loaded->name)
                             : absl::StatusOr<AgentLocation>(loaded.status());
    const absl::Status finished = session_.gone() || absl::IsDeadlineExceeded(agent.status())
                                      ? absl::OkStatus()
                                      : thread.finish(last_call(thread, loaded, agent));
    const std::uint64_t now = monotonic_ns();
    RETURN_IF_ERROR(agent.status());
    RETURN_IF_ERROR(finished);
    if (loaded->file) RETURN_IF_ERROR(check_mapped(*loaded, *agent));
    const bool polled = thread.program() == nullptr && !loaded->file;
    log_debug("pid {}: stopped {} us, {} of them after the load", target_.pid,
              (now - stopped_at_) / 1000, (now - loaded_at) / 1000);
    return InjectionResult{*agent, loaded->file, static_cast<double>(now - stopped_at_) * 1e-9,
                           polled};
  }

  // Does not ask a copied agent to start, because no probe listens to it yet, nor a thread without
  // the runtime lock.
  static std::optional<RemoteCall> last_call(const BorrowedThread& thread,
                                             const absl::StatusOr<BorrowedThread::Copy>& loaded,
                                             const absl::StatusOr<AgentLocation>& agent) {
    if (loaded.ok() && loaded->file) return thread.close_call(*loaded);
    if (thread.program() != nullptr) return std::nullopt;
    return agent.ok() ? std::optional(RemoteCall{agent->poll_address}) : std::nullopt;
  }

  absl::StatusOr<BorrowedThread::Copy> load(BorrowedThread& thread) const {
    if (!injection_.agent_copy.empty()) {
      return thread.load_copy(injection_.agent_copy, injection_.agents);
    }
    if (injection_.agent_path.empty()) return BorrowedThread::Copy{};
    // Reads the file into the page cache. The kernel places the probes when the program maps the
    // file, which may be long after they were attached.
    read_in_whole(injection_.agent_path);
    const BorrowedThread::Copy file{.name = name_beside(injection_.agent_path, injection_.agents)};
    RETURN_IF_ERROR(thread.load(file.name));
    return file;
  }

  // The program may have replaced the file that its dynamic linker opened.
  absl::Status check_mapped(const BorrowedThread::Copy& copy, const AgentLocation& agent) const {
    ASSIGN_OR_RETURN(const auto maps, target_.memory->maps());
    const auto at = std::find_if(maps.begin(), maps.end(), [&](const Mapping& mapping) {
      return mapping.begin <= agent.poll_address && agent.poll_address < mapping.end;
    });
    if (at != maps.end() && is_mapping_of(*at, copy.file->get())) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("pid ", target_.pid,
                                            " loaded something else in place of the agent; preload "
                                            "or link the agent"));
  }

  absl::Status replaced() const {
    return absl::NotFoundError(
        absl::StrCat("pid ", target_.pid, " replaced itself (exec) during the attach"));
  }

  Injector& injector_;
  const Injection& injection_;
  const Target& target_;
  SafePoint* const safe_point_;  // null: only a waiting thread is used
  PtraceSession session_;
  memprof_safe_point_hit hit_{};
  ProcessStatus thread_;  // status of the used thread before it was stopped
  bool one_set_of_filters_ = true;
  std::uint64_t stopped_at_ = 0;
};

absl::StatusOr<std::unique_ptr<Injector>> Injector::start(Injection injection) {
  const Target& target = *injection.target;
  const ProbeSite site =
      injection.place ? injection.place->site : site_in_program(target, target.safe_point);
  std::unique_ptr<Injector> injector(new Injector(std::move(injection)));
  if (!injector->injection_.without_probe) {
    ASSIGN_OR_RETURN(injector->safe_point_, SafePoint::attach(target.pid, site));
  }
  injector->cancel_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!injector->cancel_) {
    return file_error(errno, absl::StrCat("cannot create an eventfd for pid ", target.pid));
  }
  injector->find_stack();
  ASSIGN_OR_RETURN(injector->thread_,
                   start_thread("to load the agent", [self = injector.get()] { self->run(); }));
  return injector;
}

void Injector::find_stack() {
  const auto maps = injection_.target->memory->maps();
  main_stack_ = maps.ok() ? find_main_stack(*maps) : AddressRange{};
}

void Injector::note_waiting(std::string why) {
  const MutexLock lock(mutex_);
  why_not_waiting_ = std::move(why);
}

std::string Injector::why_not_waiting() const {
  const MutexLock lock(mutex_);
  return why_not_waiting_;
}

void Injector::run() {
  const auto cancelled = [this](milliseconds time) { return is_readable(cancel_.get(), time); };
  result_ = absl::CancelledError("the attach was cancelled");
  // A late answer costs the program a wait, so this must not happen too often.
  for (int before = 0;
       !cancelled(milliseconds(misses_ > before ? 10 << std::min(misses_, 5) : 0));) {
    before = misses_;
    InjectionAttempt::Outcome outcome = std::nullopt;
    auto thread = start_thread("to load the agent", [&] {
      Obstacle before_it = Obstacle::kNoThread;
      obstacle_.compare_exchange_strong(before_it, Obstacle::kNone);
      take_priority();
      outcome = absl::InternalError("memprofd failed to load the agent; see its log");
      guarded("to load the agent", [&] { outcome = InjectionAttempt(*this).run(); });
    });
    if (thread.ok()) {
      thread->join();
    } else {
      log_debug("{}", std::string(thread.status().message()));
      obstacle_ = Obstacle::kNoThread;
      if (cancelled(kAskAgain)) break;
    }
    if (outcome.ok() && !*outcome) continue;
    result_ = outcome.ok() ? absl::StatusOr<InjectionResult>(**outcome) : outcome.status();
    break;
  }
  done_ = true;
}

void Injector::give_up() {
  given_up_ = true;
  (void)::eventfd_write(cancel_.get(), 1);
}

void Injector::wait() {
  if (!thread_.joinable()) return;
  give_up();
  thread_.join();
}

Injector::~Injector() {
  wait();
  if (safe_point_) injection_.removal->add(safe_point_);
}

std::optional<absl::StatusOr<InjectionResult>> Injector::result() const {
  if (!done_) return std::nullopt;
  return result_;
}

}  // namespace memprofd
