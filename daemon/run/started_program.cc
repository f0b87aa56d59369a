// SPDX-License-Identifier: Apache-2.0
#include "daemon/run/started_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent-lib/include/memprof_share_abi.h"
#include "agent-lib/include/memprof_values_abi.h"
#include "daemon/util/status_macros.h"

extern char** environ;

namespace memprofd {
namespace {

constexpr char kPreload[] = "LD_PRELOAD";
constexpr std::array kPassedOn{SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
constexpr std::array kIgnored{SIGINT, SIGQUIT};

std::atomic<pid_t> passed_to{0};

// True if a shell waits for this process and would notice that it stops.
bool is_job_in_foreground() {
  const UniqueFd terminal(::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY));
  return terminal && ::tcgetpgrp(terminal.get()) == ::getpgrp();
}

void pass_on(int signal) {
  if (const pid_t pid = passed_to.load(); pid > 0) ::kill(pid, signal);
}

// The caller's environment, plus what the agent needs.
std::vector<std::string> environment(const StartOptions& options) {
  std::vector<std::string> variables;
  std::string before;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view variable = *at;
    if (variable.starts_with(absl::StrCat(kPreload, "="))) {
      before = variable.substr(sizeof kPreload);
    } else if (!variable.starts_with("MEMPROF_SHARE_")) {
      variables.emplace_back(variable);
    }
  }
  const char* separator = before.empty() ? "" : ":";
  variables.push_back(absl::StrCat(kPreload, "=", before, separator, options.agent));
  variables.push_back(absl::StrCat(MEMPROF_SHARE_PRELOAD, "=", before));
  variables.push_back(absl::StrCat(MEMPROF_SHARE_FD, "=", options.share));
  if (options.checked) variables.push_back(absl::StrCat(MEMPROF_CHECK_PID, "=1"));
  if (!options.children.empty()) {
    variables.push_back(absl::StrCat(MEMPROF_SHARE_SOCKET, "=", options.children));
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

absl::Status start_error(int error, const std::string& command) {
  const std::string text = absl::StrCat("cannot run ", command, ": ", std::strerror(error));
  // As in shells, a program is not looked for in the current folder by its mere name, which is the
  // one that dune gives it. EACCES: a folder of PATH cannot be read.
  if (!absl::StrContains(command, '/') && ::access(command.c_str(), X_OK) == 0) {
    return absl::NotFoundError(
        absl::StrCat(text, "; the current folder is not in PATH: write ./", command));
  }
  if (error == ENOENT) return absl::NotFoundError(absl::StrCat(text, "; check the name"));
  if (error == EACCES || error == ENOEXEC) return absl::PermissionDeniedError(text);
  return absl::ResourceExhaustedError(text);
}

}  // namespace

std::string path_of_command(const std::string& command) {
  if (absl::StrContains(command, '/')) return command;
  const char* path = std::getenv("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    std::string full = absl::StrCat(folder.empty() ? "." : folder, "/", command);
    if (::access(full.c_str(), X_OK) == 0) return full;
  }
  return command;
}

absl::StatusOr<StartedProgram> StartedProgram::start(const StartOptions& options) {
  std::vector<std::string> variables = environment(options), words = options.command;
  // Restores the signals for the program, whatever memprofctl does with them.
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : kIgnored) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaddset(&defaults, signal);
    ::signal(signal, SIG_IGN);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, words[0].c_str(), nullptr, &attributes,
                                   pointers(words).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return start_error(error, words[0]);
  passed_to = pid;
  ::signal(SIGCHLD, SIG_DFL);  // inherited as ignored, it would discard the program's exit code
  struct sigaction passing {};
  passing.sa_handler = pass_on;
  passing.sa_flags = SA_RESTART;
  for (const int signal : kPassedOn) ::sigaction(signal, &passing, nullptr);
  // memprofctl has not waited for the child yet, so no other process can have its pid.
  return StartedProgram(pid, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
}

// Ctrl-Z stops both processes. fg resumes both, perhaps this one first: so the program must be
// found stopped twice.
void StartedProgram::stop_too() {
  if (!std::exchange(was_stopped_, true) || !is_job_in_foreground()) return;
  ::raise(SIGSTOP);
  was_stopped_ = false;
  ::kill(pid_, SIGCONT);
}

bool StartedProgram::wait(std::chrono::milliseconds time, int descriptor) {
  pollfd waited[] = {{pidfd_.get(), POLLIN, 0}, {descriptor, POLLIN, 0}};
  // Kernels before 5.3 have no pidfd; then waitid() decides after the time.
  ::poll(waited, 2, static_cast<int>(time.count()));
  siginfo_t changed{};
  int status = 0;
  const bool can_wait =
      ::waitid(P_PID, pid_, &changed, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0;
  if (can_wait && changed.si_pid == 0) {
    was_stopped_ = false;
    return false;
  }
  if (can_wait && changed.si_code == CLD_STOPPED) {
    stop_too();
    return false;
  }
  passed_to = 0;
  if (can_wait && ::waitpid(pid_, &status, 0) == pid_) end_ = ProgramEnd::of_status(status, false);
  return true;
}

}  // namespace memprofd
