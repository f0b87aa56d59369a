// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/running_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_memfd.h"
#include "daemon/attach/inject/agent_owner.h"
#include "daemon/attach/inject/seccomp_filter.h"
#include "daemon/attach/inject/waiting_program.h"
#include "daemon/discover/proc_fs.h"
#include "daemon/discover/runtime_locks.h"
#include "daemon/run/own_process.h"
#include "daemon/run/run_target.h"
#include "daemon/util/clock.h"
#include "daemon/util/open_files.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// For the dynamic linker, once a thread has begun to load the agent: a slow disk.
constexpr seconds kLoadPatience{2};
// For a program that has been found waiting to load the agent, and for one that may be about to
// wait to be found so: it has just answered a request.
constexpr seconds kWaitingPatience{2};
constexpr milliseconds kAboutToWait{100}, kLookPace{5};
// The longest time between two requests for a collection.
constexpr milliseconds kMaxBetween{500};
// So often the program may close the memory's descriptor before it is opened here.
constexpr int kMaxClosed = 10;
// For the agent to stop, and between two looks at that.
constexpr milliseconds kStopPatience{500}, kStopPace{5};

// True if every thread has as many filters as this process, and these are the container's: its
// first process has them too.
absl::StatusOr<bool> has_filters_of_container(int pid) {
  const ProcFs proc;
  ASSIGN_OR_RETURN(const ProcessStatus own, proc.status_of_self());
  const absl::StatusOr<ProcessStatus> first = proc.status(1);
  if (!first.ok() || first->seccomp != own.seccomp ||
      first->seccomp_filters != own.seccomp_filters) {
    return false;
  }
  return has_one_set_of_filters(pid, own);
}

// A filter that cannot be read might kill the program, and any thread may come to load the agent.
absl::Status check_filters_are_known(int pid) {
  const ProcessStatus without_filter;
  ASSIGN_OR_RETURN(const bool is_free, has_one_set_of_filters(pid, without_filter));
  if (is_free) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool is_of_container, has_filters_of_container(pid));
  if (is_of_container) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "pid ", pid, " runs under a seccomp filter, which might kill it when it loads the agent; ",
      kStartByRun));
}

bool is_found_waiting(const Target& target, const RuntimeLocks& locks) {
  for (const auto until = std::chrono::steady_clock::now() + kAboutToWait;;) {
    if (WaitingProgram::inspect(target, locks, {}).ok()) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kLookPace);
  }
}

// Returns the address of the agent's memprof_share_order, by the file that the agent was found in.
// kFailedPrecondition: it has none.
absl::StatusOr<std::uint64_t> find_order(int pid, const AgentLocation& agent,
                                         const SharedBudget& budget) {
  ASSIGN_OR_RETURN(const auto file, ElfFile::from_fd(agent.file, agent.path, budget));
  const auto control = file->find_symbol("memprof_agent_control");
  const auto order = file->find_symbol("memprof_share_order");
  if (control && order) return agent.control_address - control->address + order->address;
  return absl::FailedPreconditionError(absl::StrCat(
      "pid ", pid, " has the agent of another version of memprofd; restart the program"));
}

absl::Status not_shared(int pid, int error) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "pid ", pid, " cannot load the agent or share its memory: ", std::strerror(error),
      error == EMFILE   ? "; raise its limit of open files (prlimit --nofile)"
      : error == EFBIG  ? "; raise its limit of file sizes (prlimit --fsize)"
      : error == ENOMEM ? "; raise its limit of address space (prlimit --as)"
                        : ""));
}

bool has_limited_memory(int pid) {
  rlimit limit{};
  return ::prlimit(pid, RLIMIT_AS, nullptr, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// The program chooses the number, and opening a device has effects: only a regular file is opened,
// and only if its name is that of such memory.
absl::StatusOr<UniqueFd> open_memory(int pid, int descriptor) {
  const std::string path = ProcFs().path(pid, absl::StrCat("fd/", descriptor));
  std::error_code error;
  const std::string name = std::filesystem::read_symlink(path, error).string();
  if (error) return file_error(error.value(), absl::StrCat("cannot open ", path));
  if (name != absl::StrCat("/memfd:", SharedAgent::kMemoryName, " (deleted)")) {
    return SharedAgent::not_its_memory();
  }
  const UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat info {};
  if (!found || ::fstat(found.get(), &info) != 0) {
    return file_error(errno, absl::StrCat("cannot open ", path));
  }
  if (!S_ISREG(info.st_mode)) return SharedAgent::not_its_memory();
  UniqueFd file(
      ::open(absl::StrCat("/proc/self/fd/", found.get()).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file) return file_error(errno, absl::StrCat("cannot open ", path));
  return file;
}

}  // namespace

RunningProcess::~RunningProcess() {
  if (order_ == 0) return;
  constexpr std::uint64_t kOver = 0;
  (void)target_.memory->write_value(order_ + offsetof(memprof_share_order, until_ns), kOver);
}

absl::StatusOr<std::unique_ptr<RunningProcess>> RunningProcess::inspect(int pid, AgentFile agent) {
  ASSIGN_OR_RETURN(Target target, discover_own_process(pid, kToProfile));
  if (!target.why_no_agent.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("pid ", pid, ": ", target.why_no_agent));
  }
  ASSIGN_OR_RETURN(TargetLock lock, TargetLock::acquire(pid, target.start_time_ticks));
  std::unique_ptr<RunningProcess> process(
      new RunningProcess(std::move(target), std::move(lock), std::move(agent)));
  RETURN_IF_ERROR(process->begin());
  return process;
}

absl::Status RunningProcess::begin() {
  const int pid = target_.pid;
  begun_at_ = asked_at_ = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(check_filters_are_known(pid));
  ASSIGN_OR_RETURN(const AgentPlan plan, read_agent_status(target_));
  if (!plan.why_none.empty()) return absl::FailedPreconditionError(plan.why_none);
  collections_.emplace(target_);
  if (plan.there) return end_session_of_before(plan.agent, *plan.there);
  if (target_.abi.domains && plan.others > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "pid ", pid,
        " holds an agent of another build, and OCaml 5 has no place for a second one; ",
        "restart the program"));
  }
  ASSIGN_OR_RETURN(const auto maps, target_.memory->maps());
  ASSIGN_OR_RETURN(libc_, find_libc_functions(pid, maps));
  if (!sees_file(ProcFs(), pid, file_.path)) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", pid, " does not see ", file_.path,
                     "; run memprofctl in its container, or make the file visible there"));
  }
  others_ = plan.others;
  step_ = Step::kLoading;
  const auto locks = RuntimeLocks::find(target_);
  return locks.ok() && is_found_waiting(target_, *locks) ? load_while_it_waits()
                                                         : load_at_a_collection();
}

absl::Status RunningProcess::load_while_it_waits() {
  Injection injection{.target = &target_,
                      .removal = &removal_,
                      .agent_path = file_.path,
                      .agents = others_,
                      .libc = libc_};
  injection.while_waiting = injection.without_probe = true;
  injection.on_loaded = [](const std::string&) { return AgentLocation{}; };  // find_agent()
  ASSIGN_OR_RETURN(injector_, Injector::start(std::move(injection)));
  return absl::OkStatus();
}

absl::Status RunningProcess::load_at_a_collection() {
  ASSIGN_OR_RETURN(loader_,
                   HookLoader::start(target_, libc_.dlopen, name_beside(file_.path, others_)));
  return absl::OkStatus();
}

absl::Status RunningProcess::end_session_of_before(const AgentLocation& agent,
                                                   const AgentStatus& status) {
  if (status.state == MEMPROF_AGENT_UNSUPPORTED) {
    return absl::FailedPreconditionError(
        absl::StrCat("pid ", target_.pid,
                     ": its agent found Gc.Memprof in use or unusable; restart the program"));
  }
  const AgentControl control(target_.pid, *target_.memory, agent.control_address);
  RETURN_IF_ERROR(check_owner(status.owner, target_.pid));
  agent_ = agent;
  return control.give({.owner = OwnerToken::ours(),
                       .session = SessionRequest{.generation = status.next_generation()}});
}

absl::StatusOr<bool> RunningProcess::has_ended_session() const {
  const AgentControl control(target_.pid, *target_.memory, agent_.control_address);
  ASSIGN_OR_RETURN(const AgentStatus status, control.status());
  RETURN_IF_ERROR(check_owner(status.owner, target_.pid));
  return status.state != MEMPROF_AGENT_SAMPLING && status.state != MEMPROF_AGENT_ASIDE;
}

absl::Status RunningProcess::not_loaded() const {
  if (!has_free_descriptor(ProcFs(), target_.pid)) return not_shared(target_.pid, EMFILE);
  if (has_limited_memory(target_.pid)) return not_shared(target_.pid, ENOMEM);
  return absl::DataLossError(absl::StrCat("the dynamic linker of pid ", target_.pid, " refused ",
                                          file_.path, "; is the file readable by the program?"));
}

absl::StatusOr<bool> RunningProcess::find_agent() {
  ASSIGN_OR_RETURN(const auto maps, target_.memory->maps());
  target_.agents =
      find_agents(ProcFs(), target_.pid, maps, *target_.program, target_.load_bias, target_.budget);
  ASSIGN_OR_RETURN(const AgentPlan plan, read_agent_status(target_));
  if (plan.there) agent_ = plan.agent;
  return plan.there.has_value();
}

absl::StatusOr<bool> RunningProcess::has_loaded_while_it_waits() {
  if (!injector_->result() && std::chrono::steady_clock::now() - begun_at_ < kWaitingPatience) {
    return false;
  }
  injector_.reset();
  ASSIGN_OR_RETURN(const bool is_there, find_agent());
  if (!is_there) RETURN_IF_ERROR(load_at_a_collection());
  return is_there;
}

absl::StatusOr<bool> RunningProcess::has_loaded() {
  if (injector_) return has_loaded_while_it_waits();
  ASSIGN_OR_RETURN(const HookLoader::Progress progress, loader_->progress());
  if (progress == HookLoader::Progress::kWaiting) return false;
  const auto now = std::chrono::steady_clock::now();
  if (ran_at_ == std::chrono::steady_clock::time_point()) ran_at_ = now;
  const bool is_late = now - ran_at_ > kLoadPatience;
  // The linker clears and relocates the agent's data first, and with it what we would write there.
  if (progress == HookLoader::Progress::kLoading && !is_late) return false;
  ASSIGN_OR_RETURN(const bool is_there, find_agent());
  if (!is_there && is_late) return not_loaded();
  return is_there;
}

absl::Status RunningProcess::order() {
  ASSIGN_OR_RETURN(order_, find_order(target_.pid, agent_, target_.budget));
  const AgentControl control(target_.pid, *target_.memory, agent_.control_address);
  RETURN_IF_ERROR(check_claim(control, target_.pid));
  RETURN_IF_ERROR(control.give({.owner = OwnerToken::ours()}));
  memprof_share_order order{};
  RETURN_IF_ERROR(target_.memory->read_value(order_, order));
  wanted_ = order.answered + 1;
  renewed_ns_ = 0;
  RETURN_IF_ERROR(renew_order());
  return target_.memory->write_value(order_ + offsetof(memprof_share_order, wanted), wanted_);
}

absl::Status RunningProcess::renew_order() {
  const std::uint64_t now = monotonic_ns();
  if (renewed_ns_ != 0 && now - renewed_ns_ < AgentControl::kLeaseNs / 3) return absl::OkStatus();
  renewed_ns_ = now;
  return target_.memory->write_value(order_ + offsetof(memprof_share_order, until_ns),
                                     now + AgentControl::kLeaseNs);
}

absl::StatusOr<std::optional<SharedAgent>> RunningProcess::take_answer() {
  memprof_share_order order{};
  RETURN_IF_ERROR(target_.memory->read_value(order_, order));
  if (order.answered != wanted_) {
    RETURN_IF_ERROR(renew_order());
    return std::nullopt;
  }
  if (order.descriptor == -ETIMEDOUT) {  // this process was stopped meanwhile
    RETURN_IF_ERROR(this->order());
    return std::nullopt;
  }
  if (order.descriptor < 0) {
    return not_shared(target_.pid, static_cast<int>(-std::int64_t{order.descriptor}));
  }
  absl::StatusOr<UniqueFd> file = open_memory(target_.pid, order.descriptor);
  if (absl::IsNotFound(file.status()) && !has_exited(target_)) {
    if (++closed_ < kMaxClosed) {
      RETURN_IF_ERROR(this->order());
      return std::nullopt;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "pid ", target_.pid, " closes file descriptors that it did not open; ", kStartByRun));
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(SharedAgent agent, SharedAgent::adopt(*std::move(file)));
  return agent;
}

std::string RunningProcess::why_waiting() const {
  const auto status = ProcFs().status(target_.pid);
  if (status.ok() && (status->state == 'T' || status->state == 't')) {
    return "is stopped, by a signal or a debugger; let it continue (SIGCONT)";
  }
  const char* const lacks =
      step_ == Step::kEnding
          ? "has not allocated enough yet to end its session with another profiler"
      : step_ == Step::kLoading ? "has not allocated enough yet on a thread with 64 KiB of free "
                                  "stack (ulimit -s) to load the agent"
                                : "has not allocated enough yet for sampling to begin";
  return absl::StrCat(lacks, "; give it work, or wait longer");
}

// Often at first; later a program that is idle need not be disturbed so often.
void RunningProcess::ask_for_collection() {
  const auto now = std::chrono::steady_clock::now();
  const auto waited = now - begun_at_;
  if (now - asked_at_ < std::min<decltype(waited)>(waited / 8, kMaxBetween)) return;
  collections_->request();
  asked_at_ = now;
}

absl::StatusOr<std::optional<SharedAgent>> RunningProcess::advance() {
  if (step_ == Step::kEnding || step_ == Step::kLoading) {
    ASSIGN_OR_RETURN(const bool is_done,
                     step_ == Step::kEnding ? has_ended_session() : has_loaded());
    if (is_done) {
      RETURN_IF_ERROR(order());
      step_ = Step::kOrdered;
    }
  }
  if (step_ == Step::kOrdered) {
    ASSIGN_OR_RETURN(std::optional<SharedAgent> agent, take_answer());
    if (agent) {
      step_ = Step::kShared;
      return agent;
    }
  }
  ask_for_collection();
  return std::nullopt;
}

void end_sampling(RunTarget& run, RunningProcess& process) {
  run.withdraw();
  for (const auto until = std::chrono::steady_clock::now() + kStopPatience;
       !run.stopped() && std::chrono::steady_clock::now() < until && !process.wait(kStopPace);) {
    process.ask_for_collection();
    run.update();
  }
  run.detach();
}

bool RunningProcess::wait(milliseconds time) const {
  pollfd ended{target_.pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, static_cast<int>(time.count())) == 1;
}

}  // namespace memprofd
