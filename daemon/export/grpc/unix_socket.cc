// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "daemon/util/fd.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

absl::Status create_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return absl::OkStatus();
  RETURN_IF_ERROR(create_folder(folder.parent_path()));
  if (::mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
  const std::string message = absl::StrCat("cannot create ", folder.string(),
                                           " for the gRPC socket: ", std::strerror(errno),
                                           "; run as root or choose a path with --grpc.socket");
  if (errno == EACCES || errno == EROFS) return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

absl::Status bad_path(const std::string& path, const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat("gRPC socket ", path, ": ", why, "; choose another with --grpc.socket"));
}

// 0 when somebody listens, else errno of the attempt to connect.
int try_connect(const sockaddr_un& address) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  const int rc = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return rc == 0 ? 0 : errno;
}

}  // namespace

absl::Status prepare_socket_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return bad_path(path, "a path of 1 to 107 characters is needed");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  RETURN_IF_ERROR(create_folder(std::filesystem::path(path).parent_path()));

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
  // Connected, or a full queue of connections: somebody listens.
  return absl::UnavailableError(
      absl::StrCat("gRPC socket ", path,
                   ": another memprofd listens there; stop it or choose another with "
                   "--grpc.socket"));
}

}  // namespace memprofd
