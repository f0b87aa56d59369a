// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/unix_listener.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/util/guard.h"
#include "daemon/util/log.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kBacklog = 64;
constexpr mode_t kMode = 0660;
constexpr milliseconds kTimeoutPoll{500};
constexpr std::chrono::seconds kBetweenRefusals{60};

// Creates only the last folder: a missing parent is more likely a typing error.
absl::Status create_folder(const std::filesystem::path& folder) {
  if (folder.empty() || ::mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST) {
    return absl::OkStatus();
  }
  const int error = errno;
  const std::string message = absl::StrCat("cannot create ", folder.string(),
                                           " for the gRPC socket: ", std::strerror(error),
                                           "; run as root or choose a path with --grpc.socket");
  if (error == EACCES || error == EROFS) return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

absl::Status bad_path(const std::string& path, const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat("gRPC socket ", path, ": ", why, "; choose another with --grpc.socket"));
}

// 0 if a process listens, otherwise errno of the attempt to connect.
int try_connect(const sockaddr_un& address) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  const int rc = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return rc == 0 ? 0 : errno;
}

// Removes the socket of a memprofd that was killed.
absl::Status make_way(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return absl::OkStatus();
  if (!S_ISSOCK(status.st_mode)) return bad_path(path, "exists and is not a socket");
  const int error = try_connect(address);
  if (error == ECONNREFUSED) {
    if (::unlink(path.c_str()) == 0) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat("cannot remove the stale socket ", path, ": ", std::strerror(errno)));
  }
  if (error == EACCES) {
    return absl::PermissionDeniedError(absl::StrCat(
        "gRPC socket ", path, ": belongs to another user; choose another with --grpc.socket"));
  }
  // Connected, or a full queue of connections: a process listens.
  return absl::UnavailableError(
      absl::StrCat("gRPC socket ", path,
                   ": another memprofd listens there; stop it or choose another with "
                   "--grpc.socket"));
}

// The file's mode is never wider than the final one: it begins as the descriptor's mode without the
// umask's bits, and chmod() then restores these.
absl::StatusOr<UniqueFd> bind_socket(const std::string& path, const sockaddr_un& address) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::fchmod(fd.get(), kMode) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), kMode) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    if (error == ENOTDIR || error == ENOENT) return bad_path(path, std::strerror(error));
    return absl::PermissionDeniedError(
        absl::StrCat("cannot serve gRPC on ", path, ": ", std::strerror(error),
                     "; run as root or choose another path with --grpc.socket"));
  }
  return fd;
}

std::optional<UnixPeer> peer_of(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return UnixPeer{peer.pid, peer.uid, peer.gid};
}

}  // namespace

std::optional<UnixPeer> unix_peer(std::string_view peer) {
  absl::string_view number(peer.data(), peer.size());
  int fd = -1;
  if (!absl::ConsumePrefix(&number, "fd:") || !absl::SimpleAtoi(number, &fd)) return std::nullopt;
  return peer_of(fd);
}

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::listen(
    const std::string& path, UnixListenerLimits limits, std::shared_ptr<ServerStats> stats) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return bad_path(path, "a path of 1 to 107 characters is needed");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  RETURN_IF_ERROR(create_folder(std::filesystem::path(path).parent_path()));
  RETURN_IF_ERROR(make_way(path, address));
  ASSIGN_OR_RETURN(UniqueFd socket, bind_socket(path, address));
  return std::unique_ptr<UnixListener>(
      new UnixListener(path, std::move(socket), limits, std::move(stats)));
}

UnixListener::UnixListener(std::string path, UniqueFd socket, UnixListenerLimits limits,
                           std::shared_ptr<ServerStats> stats)
    : path_(std::move(path)),
      socket_(std::move(socket)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      limits_(limits),
      stats_(std::move(stats)),
      slots_(limits.connections, "connections are open", limits.connections_a_user) {}

UnixListener::~UnixListener() {
  ended_ = true;
  stop(milliseconds(0));
  if (thread_.joinable()) thread_.join();
  cut_off_all();
}

void UnixListener::serve(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { loop(); });
}

void UnixListener::stop(milliseconds grace) {
  remove_socket();
  cut_off_at_ = steady_clock::now() + grace;
  {
    const MutexLock lock(taking_);
    stopping_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
}

void UnixListener::remove_socket() {
  const std::string path = std::exchange(path_, "");
  if (!path.empty()) ::unlink(path.c_str());
}

void UnixListener::loop() {
  while (!ended_) {
    guarded("to take connections", [this] {
      if (wait()) accept();
      const auto now = steady_clock::now();
      if (now >= cut_off_at_.load()) cut_off_all();
      close_stalled_connections(now);
    });
  }
}

bool UnixListener::wait() {
  std::vector<pollfd> fds{{wake_.get(), POLLIN, 0}};
  fds.push_back({socket_.get(), POLLIN, 0});
  for (const auto& [fd, connection] : connections_) fds.push_back({fd, 0, 0});
  const auto rest =
      std::chrono::duration_cast<milliseconds>(cut_off_at_.load() - steady_clock::now());
  ::poll(fds.data(), fds.size(),
         static_cast<int>(std::clamp(rest, milliseconds(1), kTimeoutPoll).count()));
  eventfd_t woken = 0;
  ::eventfd_read(wake_.get(), &woken);
  for (std::size_t i = 2; i < fds.size(); ++i) {
    if (fds[i].revents != 0) connections_.erase(fds[i].fd);  // both sides have ended
  }
  return fds[1].revents != 0;
}

void UnixListener::accept() {
  UniqueFd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) {
    // Out of descriptors: the connection stays in the queue, and poll() would not wait for it.
    if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(milliseconds(50));
    return;
  }
  const MutexLock lock(taking_);
  if (stopping_) return;
  const auto peer = peer_of(fd.get());
  UniqueFd own(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!peer || !own) return;
  auto slot = slots_.take(peer->uid == 0 ? "" : absl::StrCat("user ", peer->uid));
  if (!slot.ok()) return refuse(peer->uid, slot.status());
  const int key = own.get();
  connections_.insert_or_assign(
      key, Connection{std::move(own), peer->uid, *std::move(slot), 0, steady_clock::now()});
  take_(std::move(fd));
}

void UnixListener::refuse(uid_t uid, const absl::Status& why) {
  ++stats_->grpc_refused;
  const auto now = steady_clock::now();
  if (now - refusal_logged_at_ >= kBetweenRefusals) {
    refusal_logged_at_ = now;
    log_warning("gRPC: refused a connection of user {}: {}", uid, std::string(why.message()));
  }
}

void UnixListener::close_stalled_connections(TimePoint now) {
  for (auto& [fd, connection] : connections_) {
    int unread = 0;
    if (::ioctl(fd, SIOCOUTQ, &unread) != 0) unread = 0;
    if (unread == 0 || unread < connection.unread_bytes) connection.read_at = now;
    connection.unread_bytes = unread;
    if (now - connection.read_at < limits_.patience) continue;
    ::shutdown(fd, SHUT_RDWR);
    ++stats_->grpc_cut_off;
    connection.read_at = now;
    log_warning("gRPC: closed a connection of user {}, which has not read for {} s", connection.uid,
                std::chrono::duration_cast<std::chrono::seconds>(limits_.patience).count());
  }
}

void UnixListener::cut_off_all() {
  for (const auto& [fd, connection] : connections_) ::shutdown(fd, SHUT_RDWR);
}

}  // namespace memprofd
