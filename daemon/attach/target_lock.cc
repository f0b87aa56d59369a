#include "daemon/attach/target_lock.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

// Pid of the process that listens there, 0 when unknown.
int listener_pid(const sockaddr_un& address, socklen_t length) {
  UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return 0;
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return 0;
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return peer.pid;
}

}  // namespace

absl::StatusOr<TargetLock> TargetLock::acquire(int pid, std::uint64_t start_time_ticks) {
  const std::string name = absl::StrCat("memprofd/", pid, "/", start_time_ticks);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return absl::InternalError(absl::StrCat("socket: ", strerror(errno)));
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      ::listen(socket.get(), 1) == 0) {
    return TargetLock(std::move(socket));
  }
  if (errno != EADDRINUSE) {
    return absl::InternalError(absl::StrCat("bind @", name, ": ", strerror(errno)));
  }
  const int holder = listener_pid(address, length);
  return absl::AlreadyExistsError(absl::StrCat("pid ", pid, " is already profiled by memprofd",
                                               holder ? absl::StrCat(" (pid ", holder, ")") : "",
                                               "; ask that one, or stop it first"));
}

}  // namespace memprofd
