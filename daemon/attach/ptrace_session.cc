#include "daemon/attach/ptrace_session.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/discover/proc_fs.h"

namespace memprofd {
namespace {

// Larger than any x86 extended state today (AMX: about 11 KB).
constexpr std::size_t kMaxXstateBytes = 64u << 10;

absl::Status ptrace_error(const char* what, pid_t tid) {
  const int error = errno;
  const std::string text = absl::StrCat("ptrace ", what, " of thread ", tid, ": ", strerror(error));
  if (error == ESRCH) return absl::NotFoundError(text);
  if (error == EPERM) return absl::PermissionDeniedError(text);
  return absl::InternalError(text);
}

}  // namespace

absl::Status PtraceSession::seize_thread(pid_t tid, bool& is_new) {
  if (threads_.contains(tid)) return absl::OkStatus();
  if (ptrace(PTRACE_SEIZE, tid, nullptr, PTRACE_O_TRACECLONE) == 0) {
    threads_.insert(tid);
    is_new = true;
    return absl::OkStatus();
  }
  // Ended between listing and seizing, or seized already by TRACECLONE.
  if (errno == ESRCH || (errno == EPERM && !threads_.empty())) return absl::OkStatus();
  const absl::Status error = ptrace_error("seize", tid);
  return ProcFs().exists(tid) ? error : absl::OkStatus();  // not collected yet: EPERM
}

absl::Status PtraceSession::seize() {
  for (bool found_new = true; found_new;) {
    found_new = false;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(absl::StrCat("/proc/", pid_, "/task"), error)) {
      pid_t tid = 0;
      if (!absl::SimpleAtoi(entry.path().filename().native(), &tid)) continue;
      if (auto status = seize_thread(tid, found_new); !status.ok()) return status;
    }
    if (error) return absl::NotFoundError(absl::StrCat("pid ", pid_, " ended"));
  }
  if (threads_.empty()) return absl::NotFoundError(absl::StrCat("pid ", pid_, " ended"));
  return absl::OkStatus();
}

std::optional<SignalStop> PtraceSession::handle_stop(pid_t tid, int status, int wanted) {
  if (WIFEXITED(status) || WIFSIGNALED(status)) {
    threads_.erase(tid);
    return std::nullopt;
  }
  if (!WIFSTOPPED(status)) return std::nullopt;
  threads_.insert(tid);
  const int signal = WSTOPSIG(status);
  const int event = status >> 16;
  if (event == PTRACE_EVENT_STOP &&
      (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU)) {
    // Group stop: keep it stopped as its user wants, but stay informed.
    ptrace(PTRACE_LISTEN, tid, nullptr, nullptr);
    return std::nullopt;
  }
  if (event == 0 && signal == wanted) return SignalStop{tid, signal};
  (void)resume(tid, event == 0 ? signal : 0);
  return std::nullopt;
}

std::optional<SignalStop> PtraceSession::drain(int wanted, int first_options) {
  for (int options = first_options;; options = WNOHANG) {
    int status = 0;
    const pid_t tid = waitpid(-1, &status, __WALL | __WNOTHREAD | options);
    if (tid < 0 && errno == ECHILD) threads_.clear();
    if (tid <= 0) return std::nullopt;
    if (auto stop = handle_stop(tid, status, wanted)) return stop;
  }
}

std::optional<SignalStop> PtraceSession::poll(int wanted) { return drain(wanted, WNOHANG); }

std::optional<SignalStop> PtraceSession::wait(int wanted) { return drain(wanted, 0); }

absl::StatusOr<ThreadState> PtraceSession::state(pid_t tid) const {
  ThreadState state;
  if (ptrace(PTRACE_GETREGS, tid, nullptr, &state.regs) != 0) return ptrace_error("getregs", tid);
  if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(state.signal_mask), &state.signal_mask) != 0) {
    return ptrace_error("getsigmask", tid);
  }
  state.xstate.resize(kMaxXstateBytes);
  iovec iov{state.xstate.data(), state.xstate.size()};
  if (ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &iov) != 0) {
    return ptrace_error("getregset", tid);
  }
  state.xstate.resize(iov.iov_len);
  return state;
}

absl::Status PtraceSession::set_registers(pid_t tid, const user_regs_struct& regs) const {
  if (ptrace(PTRACE_SETREGS, tid, nullptr, &regs) != 0) return ptrace_error("setregs", tid);
  return absl::OkStatus();
}

absl::Status PtraceSession::resume(pid_t tid, int signal) const {
  if (ptrace(PTRACE_CONT, tid, nullptr, signal) != 0) return ptrace_error("cont", tid);
  return absl::OkStatus();
}

absl::Status PtraceSession::release(pid_t tid) {
  if (ptrace(PTRACE_DETACH, tid, nullptr, 0) != 0) return ptrace_error("detach", tid);
  threads_.erase(tid);
  return absl::OkStatus();
}

}  // namespace memprofd
