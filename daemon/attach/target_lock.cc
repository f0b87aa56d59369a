// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/target_lock.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/agent_owner.h"
#include "daemon/util/log.h"
#include "daemon/util/open_files.h"

namespace memprofd {
namespace {

// More connections than will ever wait, except in an attack, because no one accepts them.
constexpr int kBacklog = 4096;

struct Holder {
  bool is_memprofd = false;
  int pid = 0;  // 0: not visible from this namespace
};

bool is_memprofd(uid_t uid) { return uid == 0 || uid == ::geteuid(); }

// Name and user of a socket, from netlink.
struct SocketRecord {
  std::string_view name;
  std::optional<uid_t> uid;
};

SocketRecord socket_record(const nlmsghdr& message) {
  constexpr std::size_t kHead = NLMSG_LENGTH(NLMSG_ALIGN(sizeof(unix_diag_msg)));
  SocketRecord out;
  const auto* const begin = reinterpret_cast<const char*>(&message);
  for (std::size_t at = kHead; at + sizeof(nlattr) <= message.nlmsg_len;) {
    nlattr attribute;
    std::memcpy(&attribute, begin + at, sizeof attribute);
    if (attribute.nla_len < sizeof attribute || at + attribute.nla_len > message.nlmsg_len) break;
    const std::string_view data(begin + at + sizeof attribute,
                                attribute.nla_len - sizeof attribute);
    uid_t uid = 0;
    if (attribute.nla_type == UNIX_DIAG_NAME) out.name = data;
    if (attribute.nla_type == UNIX_DIAG_UID && data.size() == sizeof uid) {
      std::memcpy(&uid, data.data(), sizeof uid);
      out.uid = uid;
    }
    at += NLA_ALIGN(attribute.nla_len);
  }
  return out;
}

constexpr auto kNobody = static_cast<uid_t>(-1);

// The user of the socket that listens under this name, or kNobody; nothing: the kernel does not
// report it.
std::optional<uid_t> listener_at(std::string_view name) {
  const UniqueFd asking(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  struct {
    nlmsghdr head;
    unix_diag_req question;
  } request{.head = {.nlmsg_len = sizeof request,
                     .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                     .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
            .question = {.sdiag_family = AF_UNIX,
                         .udiag_states = 1u << TCP_LISTEN,
                         .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID}};
  if (!asking || ::send(asking.get(), &request, sizeof request, 0) < 0) return std::nullopt;
  alignas(nlmsghdr) char buffer[32768];
  for (;;) {
    const ssize_t got = ::recv(asking.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    auto left = static_cast<std::size_t>(got);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type == NLMSG_DONE) return kNobody;
      if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
      const SocketRecord record = socket_record(*message);
      if (record.name == name) return record.uid;
    }
  }
}

// Any process may bind the name, so only a listening process of our user or of root counts. socket:
// one that could not be bound to the name.
Holder find_holder(int socket, const sockaddr_un& address, socklen_t length) {
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno != EAGAIN) return {};
    // The socket listens, and other processes have filled its queue. An unknown user may be
    // memprofd.
    const std::string_view name(address.sun_path, length - offsetof(sockaddr_un, sun_path));
    const auto uid = listener_at(name);
    return {.is_memprofd = !uid || is_memprofd(*uid)};
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  return {.is_memprofd = is_memprofd(peer.uid), .pid = peer.pid};
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
    log_warning(
        "pid {}: ignoring a process of another user ({}) that has taken the socket name @{}", pid,
        holder.pid, name);
    return TargetLock(UniqueFd());
  }
  if (holder.pid == ::getpid()) {
    return absl::AlreadyExistsError(
        absl::StrCat("pid ", pid, " is being detached by this memprofd; attach again in a moment"));
  }
  return already_profiled(pid, holder.pid);
}

}  // namespace memprofd
