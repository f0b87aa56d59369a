// SPDX-License-Identifier: Apache-2.0
// Code that runs after a fork here may come from a process with threads: it calls nothing that
// takes a lock or allocates.
#include "daemon/discover/memory/memory_server.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/discover/memory/memory_service.h"
#include "daemon/util/open_files.h"
#include "daemon/util/threads/mutex.h"

namespace memprofd {
namespace {

// ------------------------------------------------------------ in the fork server

struct FileMessage {
  struct {
    int pid = 0;
    std::uint64_t mark = 0;
  } process;
  iovec text{&process, sizeof process};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * MemoryService::kMaxFiles)] = {};
  msghdr header{
      .msg_iov = &text, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
};

// Returns false at the end of memprofd.
bool receive(int channel, MemoryService& service) {
  for (;;) {
    FileMessage message;
    const ssize_t got = ::recvmsg(channel, &message.header, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
    if (rights == nullptr ||
        rights->cmsg_len < CMSG_LEN(sizeof(int) * (MemoryService::kMaxFiles - 1)))
      continue;
    service = MemoryService();  // the previous one may have had a window
    std::memcpy(service.files, CMSG_DATA(rights),
                std::min(sizeof service.files, rights->cmsg_len - CMSG_LEN(0)));
    service.pid = message.process.pid;
    service.mark = message.process.mark;
    return true;
  }
}

// Reaps the servers, so that their CPU time counts as their parent's.
void reap(int) {
  const int error = errno;
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  errno = error;
}

// Signals for all processes of memprofd (Ctrl-C, systemd) are handled by memprofd itself, which
// needs the servers until its end.
void leave_signals_to_memprofd() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGTSTP}) {
    std::signal(signal, SIG_IGN);
  }
  std::signal(SIGCHLD, reap);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run_fork_server(int socket) {
  leave_signals_to_memprofd();
  ::prctl(PR_SET_NAME, "memprofd-memory");
  constexpr int kNursery = 0;
  ::dup2(socket, kNursery);
  ::close_range(kNursery + 1, ~0u, 0);
  for (MemoryService service; receive(kNursery, service);) {
    const pid_t server = ::fork();
    if (server == 0) {
      ::close(kNursery);
      serve(service);
    }
    if (server < 0) no_server_error(service, errno);
    for (const int file : service.files) {
      if (file >= 0) ::close(file);
    }
  }
  ::_exit(0);
}

// --------------------------------------------------------------- in memprofd

Mutex fork_server_mutex;
int fork_server_socket ABSL_GUARDED_BY(fork_server_mutex) = -1;  // of the process's life

struct SocketPair {
  UniqueFd ours, theirs;
};

absl::StatusOr<SocketPair> make_sockets(int pid) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
    return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
  return file_error(errno, absl::StrCat("cannot make a socket to read the memory of pid ", pid));
}

// for_pid: the target that the fork is for.
absl::Status launch_fork_server(int for_pid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(fork_server_mutex) {
  auto sockets = make_sockets(for_pid);
  if (!sockets.ok()) return sockets.status();
  const pid_t pid = ::fork();
  if (pid == 0) run_fork_server(sockets->theirs.get());
  if (pid < 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot fork to read the memory of pid ", for_pid,
                            ", raise the limit of processes (TasksMax=, ulimit -u)"));
  }
  if (fork_server_socket >= 0) ::close(fork_server_socket);
  fork_server_socket = sockets->ours.release();
  return absl::OkStatus();
}

bool send(int channel, const MemoryService& service) {
  FileMessage message;
  message.process.pid = service.pid;
  message.process.mark = service.mark;
  const std::size_t bytes = sizeof(int) * (service.window_file() < 0 ? MemoryService::kMaxFiles - 1
                                                                     : MemoryService::kMaxFiles);
  message.header.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(rights), service.files, bytes);
  return ::sendmsg(channel, &message.header, MSG_NOSIGNAL) >= 0;
}

}  // namespace

void start_memory_fork_server() {
  const MutexLock lock(fork_server_mutex);
  if (fork_server_socket < 0) (void)launch_fork_server(0);
}

absl::StatusOr<UniqueFd> start_memory_server(const MemoryFiles& files) {
  auto sockets = make_sockets(files.pid);
  if (!sockets.ok()) return sockets.status();
  const MemoryService sent{
      files.pid,
      files.mark,
      {sockets->theirs.get(), files.mem.get(), files.maps.get(), files.window.get()}};
  const MutexLock lock(fork_server_mutex);
  if (fork_server_socket >= 0 && send(fork_server_socket, sent)) return std::move(sockets->ours);
  if (absl::Status forked = launch_fork_server(files.pid); !forked.ok()) return forked;
  if (send(fork_server_socket, sent)) return std::move(sockets->ours);
  return absl::UnavailableError("the process that reads targets' memory has ended");
}

}  // namespace memprofd
