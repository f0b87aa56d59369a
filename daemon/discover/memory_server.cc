// SPDX-License-Identifier: Apache-2.0
// What runs after a fork here may come from a process with threads: it calls nothing that
// takes a lock or allocates.
#include "daemon/discover/memory_server.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "daemon/util/clock.h"
#include "daemon/util/open_files.h"

namespace memprofd {
namespace {

constexpr int kFiles = 3;  // of a server: its socket and MemoryFiles

struct Service {
  int pid = 0;
  int files[kFiles] = {};
  int socket() const { return files[0]; }
  int mem() const { return files[1]; }
  int maps() const { return files[2]; }
};

// ------------------------------------------------------------- in the server

struct Message {
  MemoryRequest request;
  MemoryAnswer answer;
  alignas(8) std::byte data[kMaxMemoryTransfer];
};

// How many bytes of these are there now, as the program itself would see them; -1: errno.
ssize_t bring_in(const Service& service, const iovec* remote, std::size_t pieces) {
  static std::byte scratch[kMaxMemoryTransfer];
  iovec local{scratch, sizeof scratch};
  return ::process_vm_readv(service.pid, &local, 1, remote, pieces, 0);
}

// Whether all pages are there: 0, or the errno.
int bring_in(const Service& service, const Message& message) {
  const MemoryRequest& request = message.request;
  const iovec remote{std::bit_cast<void*>(request.address), request.bytes};
  const ssize_t n = bring_in(service, &remote, 1);
  if (n < 0) return errno;
  return n == static_cast<ssize_t>(request.bytes) ? 0 : EFAULT;
}

// A place that no program can map answers whether the address space is still there. A
// process that dies lets go of it thread by thread.
int why_not_there(const Service& service, int error) {
  if (error == ESRCH) return 0;
  constexpr off_t kNowhere = (off_t{1} << 62);
  std::byte byte;
  return ::pread(service.mem(), &byte, 1, kNowhere) == 0 ? 0 : EIO;
}

// A step of the request from `done` on, as pread and pwrite answer.
ssize_t transfer(const Service& service, Message& message, std::uint32_t done) {
  const MemoryRequest& request = message.request;
  std::byte* const data = message.data + done;
  const std::uint32_t bytes = request.bytes - done;
  const auto place = static_cast<off_t>(request.address + done);
  switch (request.what) {
    case MemoryRequest::kRead:
      return ::pread(service.mem(), data, bytes, place);
    case MemoryRequest::kMaps:
      return ::pread(service.maps(), data, bytes, place);
    case MemoryRequest::kWrite:
    case MemoryRequest::kWriteStack:
    case MemoryRequest::kReadPieces:  // done elsewhere
      break;
  }
  return ::pwrite(service.mem(), data, bytes, place);
}

// All of a piece, or -1.
ssize_t read_piece(const Service& service, const MemoryPieceRequest& piece, std::byte* out) {
  for (std::uint64_t done = 0; done < piece.bytes;) {
    const ssize_t n = ::pread(service.mem(), out + done, piece.bytes - done,
                              static_cast<off_t>(piece.address + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    done += static_cast<std::uint64_t>(n);
  }
  return static_cast<ssize_t>(piece.bytes);
}

// In their order, up to the first that is not all there.
void read_pieces(const Service& service, Message& message) {
  static MemoryPieceRequest pieces[kMaxMemoryPieces];
  static iovec remote[kMaxMemoryPieces];
  const std::size_t count =
      std::min<std::size_t>(message.request.bytes / sizeof *pieces, kMaxMemoryPieces);
  std::memcpy(pieces, message.data, count * sizeof *pieces);
  std::size_t fits = 0;
  for (std::uint64_t bytes = 0; fits < count; ++fits) {
    if (pieces[fits].bytes > sizeof message.data - bytes) break;
    bytes += pieces[fits].bytes;
    remote[fits] = {std::bit_cast<void*>(pieces[fits].address), pieces[fits].bytes};
  }
  MemoryAnswer& answer = message.answer;
  const ssize_t there = bring_in(service, remote, fits);
  if (there < 0) answer.error = why_not_there(service, errno);
  for (std::size_t i = 0; i < fits; ++i) {
    if (static_cast<ssize_t>(answer.bytes + pieces[i].bytes) > there) return;
    const ssize_t n = read_piece(service, pieces[i], message.data + answer.bytes);
    if (n < 0) answer.error = why_not_there(service, EIO);
    if (n < 0) return;
    answer.bytes += static_cast<std::uint32_t>(n);
  }
}

void transfer_all(const Service& service, Message& message) {
  MemoryAnswer& answer = message.answer;
  const MemoryRequest::What what = message.request.what;
  if (what == MemoryRequest::kReadPieces) return read_pieces(service, message);
  if (what == MemoryRequest::kRead || what == MemoryRequest::kWrite) {
    if (const int error = bring_in(service, message); error != 0) {
      answer.error = why_not_there(service, error);
      return;
    }
  }
  while (answer.bytes < message.request.bytes) {
    const ssize_t n = transfer(service, message, answer.bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) answer.error = errno;
    if (n <= 0) return;
    answer.bytes += static_cast<std::uint32_t>(n);
  }
}

// How often this thread has left its processor because it had to wait for something.
long waits() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

void do_request(const Service& service, Message& message) {
  const std::uint64_t began = monotonic_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const long waits_before = waits();
  message.answer = {.number = message.request.number};
  transfer_all(service, message);
  if (waits() == waits_before) return;  // what passed beyond its own time, others had its processor
  const std::uint64_t passed = monotonic_ns() - began;
  message.answer.blocked_ns = passed - std::min(passed, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
}

// To what was asked of it already, or will be.
void say_no_server(const Service& service, int error) {
  const MemoryAnswer answer{.error = error};
  (void)::send(service.socket(), &answer, sizeof answer, MSG_NOSIGNAL);
}

[[noreturn]] void serve(const Service& service) {
  static Message message;
  for (;;) {
    iovec in[] = {{&message.request, sizeof message.request}, {message.data, sizeof message.data}};
    const ssize_t got = ::readv(service.socket(), in, 2);
    if (got < 0 && errno == EINTR) continue;
    if (got < static_cast<ssize_t>(sizeof message.request)) ::_exit(0);
    message.request.bytes = std::min(message.request.bytes, kMaxMemoryTransfer);
    do_request(service, message);
    const MemoryRequest::What what = message.request.what;
    const bool reads = what == MemoryRequest::kRead || what == MemoryRequest::kMaps ||
                       what == MemoryRequest::kReadPieces;
    iovec out[] = {{&message.answer, sizeof message.answer},
                   {message.data, reads ? message.answer.bytes : 0}};
    const msghdr header{.msg_iov = out, .msg_iovlen = 2};
    if (::sendmsg(service.socket(), &header, MSG_NOSIGNAL) < 0) ::_exit(0);
  }
}

// ------------------------------------------------------------ in the nursery

struct FileMessage {
  int pid = 0;
  iovec text{&pid, sizeof pid};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFiles)] = {};
  msghdr header{
      .msg_iov = &text, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
};

// False at the end of memprofd.
bool receive(int nursery, Service& service) {
  for (;;) {
    FileMessage message;
    const ssize_t got = ::recvmsg(nursery, &message.header, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
    if (rights == nullptr || rights->cmsg_len != CMSG_LEN(sizeof service.files)) continue;
    std::memcpy(service.files, CMSG_DATA(rights), sizeof service.files);
    service.pid = message.pid;
    return true;
  }
}

// Signals that are sent to all of memprofd's processes (Ctrl-C, systemd) are memprofd's to
// answer, which needs the servers up to its last moment.
void leave_signals_to_memprofd() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGTSTP}) {
    std::signal(signal, SIG_IGN);
  }
  std::signal(SIGCHLD, SIG_IGN);  // nobody waits for servers
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run_nursery(int socket) {
  leave_signals_to_memprofd();
  ::prctl(PR_SET_NAME, "memprofd-memory");
  constexpr int kNursery = 0;
  ::dup2(socket, kNursery);
  ::close_range(kNursery + 1, ~0u, 0);
  for (Service service; receive(kNursery, service);) {
    const pid_t server = ::fork();
    if (server == 0) {
      ::close(kNursery);
      serve(service);
    }
    if (server < 0) say_no_server(service, errno);
    for (const int file : service.files) ::close(file);
  }
  ::_exit(0);
}

// --------------------------------------------------------------- in memprofd

std::mutex nursery_mutex;
int nursery_socket = -1;  // under nursery_mutex; of the process's life

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

// for_pid: the target that it is forked for.
absl::Status fork_nursery(int for_pid) {
  auto sockets = make_sockets(for_pid);
  if (!sockets.ok()) return sockets.status();
  const pid_t pid = ::fork();
  if (pid == 0) run_nursery(sockets->theirs.get());
  if (pid < 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot fork to read the memory of pid ", for_pid,
                            ", raise the limit of processes (TasksMax=, ulimit -u)"));
  }
  if (nursery_socket >= 0) ::close(nursery_socket);
  nursery_socket = sockets->ours.release();
  return absl::OkStatus();
}

bool send(int nursery, const Service& service) {
  FileMessage message;
  message.pid = service.pid;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof service.files);
  std::memcpy(CMSG_DATA(rights), service.files, sizeof service.files);
  return ::sendmsg(nursery, &message.header, MSG_NOSIGNAL) >= 0;
}

}  // namespace

void start_memory_nursery() {
  std::lock_guard lock(nursery_mutex);
  if (nursery_socket < 0) (void)fork_nursery(0);
}

absl::StatusOr<UniqueFd> start_memory_server(const MemoryFiles& files) {
  auto sockets = make_sockets(files.pid);
  if (!sockets.ok()) return sockets.status();
  const Service sent{files.pid, {sockets->theirs.get(), files.mem.get(), files.maps.get()}};
  std::lock_guard lock(nursery_mutex);
  if (nursery_socket >= 0 && send(nursery_socket, sent)) return std::move(sockets->ours);
  if (absl::Status forked = fork_nursery(files.pid); !forked.ok()) return forked;
  if (send(nursery_socket, sent)) return std::move(sockets->ours);
  return absl::UnavailableError("the process that reads targets' memory does not live");
}

}  // namespace memprofd
