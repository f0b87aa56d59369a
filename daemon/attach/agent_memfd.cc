#include "daemon/attach/agent_memfd.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/fd.h"

namespace memprofd {
namespace {

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// Left empty by an attach that was killed, or just created.
bool is_empty_agent_memfd(const std::string& path) {
  std::array<char, 64> link{};
  const ssize_t n = ::readlink(path.c_str(), link.data(), link.size());
  if (n <= 0 || std::string_view(link.data(), static_cast<std::size_t>(n)) != kAgentMemfdMapping)
    return false;
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && info.st_size == 0;
}

absl::Status copy_failed(const std::string& path, const char* action) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", action, " ", path));
}

}  // namespace

bool sees_file(const ProcFs& proc, int pid, const std::string& path) {
  return same_file(proc.path(pid, "root/."), "/.") &&
         same_file(proc.path(pid, absl::StrCat("root", path)), path);
}

absl::Status check_proc_inside(const ProcFs& proc, int pid) {
  struct stat info {};
  if (::lstat(proc.path(pid, "root/proc/self").c_str(), &info) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("pid ", pid,
                   " does not see the agent's file and has no /proc to open a copy through; mount "
                   "/proc in its root, or preload or link the agent there"));
}

absl::StatusOr<int> find_agent_memfd(const ProcFs& proc, int pid) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(proc.path(pid, "fd"), error)) {
    int fd = 0;
    if (absl::SimpleAtoi(entry.path().filename().native(), &fd) &&
        is_empty_agent_memfd(entry.path().native())) {
      return fd;
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "pid ", pid, " could not create a file in memory for the agent (out of descriptors?)"));
}

absl::Status fill_agent_memfd(const std::string& path, const std::string& agent_file) {
  const UniqueFd from(::open(agent_file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from) return copy_failed(agent_file, "open");
  const UniqueFd to(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!to) return copy_failed(path, "open");
  struct stat info {};
  if (::fstat(from.get(), &info) != 0) return copy_failed(agent_file, "look at");
  for (off_t left = info.st_size; left > 0;) {
    const ssize_t n = ::sendfile(to.get(), from.get(), nullptr, static_cast<std::size_t>(left));
    if (n == 0) errno = EIO;  // it shrank
    if (n <= 0) return copy_failed(path, "copy the agent to");
    left -= n;
  }
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (::fcntl(to.get(), F_ADD_SEALS, kSeals) != 0) return copy_failed(path, "seal");
  return absl::OkStatus();
}

}  // namespace memprofd
