// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/target_lock.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/util/log.h"
#include "daemon/util/open_files.h"

namespace memprofd {
namespace {

// More than will ever ask: nobody takes the connections, and one over the limit tells nothing.
constexpr int kBacklog = 4096;

struct Holder {
  bool is_memprofd = false;
  int pid = 0;  // 0: not to be seen from here
};

// Anybody may bind the name: only a process of our user, or root's, that listens counts.
// socket: one that could not be bound to it.
Holder find_holder(int socket, const sockaddr_un& address, socklen_t length) {
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0) return {};
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  return {.is_memprofd = peer.uid == 0 || peer.uid == ::geteuid(), .pid = peer.pid};
}

}  // namespace

absl::StatusOr<TargetLock> TargetLock::acquire(int pid, std::uint64_t start_time_ticks) {
  const std::string name = absl::StrCat("memprofd/", pid, "/", start_time_ticks);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const std::string action = absl::StrCat("cannot take the name @", name, " of pid ", pid);
  if (!socket) return file_error(errno, action);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      ::listen(socket.get(), kBacklog) == 0) {
    return TargetLock(std::move(socket));
  }
  if (errno != EADDRINUSE) return file_error(errno, action);
  const Holder holder = find_holder(socket.get(), address, length);
  if (!holder.is_memprofd) {
    log_warning("pid {}: another user's process ({}) has taken the name @{}, it is ignored", pid,
                holder.pid, name);
    return TargetLock(UniqueFd());
  }
  if (holder.pid == ::getpid()) {
    return absl::AlreadyExistsError(absl::StrCat(
        "pid ", pid, " is being let go of by this memprofd; attach again in a moment"));
  }
  return absl::AlreadyExistsError(
      absl::StrCat("pid ", pid, " is already profiled by memprofd",
                   holder.pid ? absl::StrCat(" (pid ", holder.pid, ")") : "",
                   "; ask that one, or stop it first"));
}

}  // namespace memprofd
