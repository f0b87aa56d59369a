// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/agent_memfd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/util/open_files.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Values of PIDFD_THREAD (linux/pidfd.h) and F_SEAL_EXEC (linux/fcntl.h), which older headers lack.
constexpr unsigned kPidfdThread = O_EXCL;
constexpr int kSealExec = 0x20;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
constexpr std::size_t kCompareBytes = 256u << 10;

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool same_path(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
         same_file(first, second);
}

absl::Status refused(const char* why) {
  return absl::FailedPreconditionError(
      absl::StrCat("the file that the program created for the agent ", why,
                   "; nothing was written to it: preload or link the agent instead"));
}

absl::Status failed(const char* action) {
  return file_error(errno, absl::StrCat("cannot ", action, " the agent's copy"));
}

absl::Status write_all(int fd, std::span<const std::byte> contents) {
  for (std::size_t at = 0; at < contents.size();) {
    const ssize_t n =
        ::pwrite(fd, contents.data() + at, contents.size() - at, static_cast<off_t>(at));
    if (n == 0) errno = EIO;
    if (n <= 0) return failed("write");
    at += static_cast<std::size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status check_contents(int fd, std::span<const std::byte> contents) {
  struct stat info {};
  bool same = ::fstat(fd, &info) == 0 && static_cast<std::size_t>(info.st_size) == contents.size();
  std::vector<std::byte> piece(std::min(kCompareBytes, contents.size()));
  for (std::size_t at = 0; same && at < contents.size(); at += piece.size()) {
    const auto expected = contents.subspan(at, std::min(piece.size(), contents.size() - at));
    const ssize_t n = ::pread(fd, piece.data(), expected.size(), static_cast<off_t>(at));
    same = n == static_cast<ssize_t>(expected.size()) &&
           std::equal(expected.begin(), expected.end(), piece.begin());
  }
  return same ? absl::OkStatus()
              : absl::DataLossError(
                    "the agent's copy was changed while it was written; the program may be "
                    "hostile");
}

}  // namespace

std::string name_beside(std::string path, std::size_t agents) {
  for (; agents > 0; --agents) path.insert(path.rfind('/') + 1, "./");
  return path;
}

bool sees_file(const ProcFs& proc, int pid, const std::string& path) {
  return same_path(proc.path(pid, "root/."), "/.") &&
         same_path(proc.path(pid, absl::StrCat("root", path)), path);
}

absl::Status check_proc_inside(const ProcFs& proc, int pid) {
  struct stat info {};
  if (::lstat(proc.path(pid, "root/proc/self").c_str(), &info) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("pid ", pid,
                   " does not see the agent's file and has no /proc to open a copy through; mount "
                   "/proc in its root, or preload or link the agent there"));
}

absl::StatusOr<std::vector<std::byte>> read_whole_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0)
    return file_error(errno, absl::StrCat("cannot read ", path));
  std::vector<std::byte> contents(static_cast<std::size_t>(info.st_size));
  const ssize_t n = ::read(file.get(), contents.data(), contents.size());
  if (n != info.st_size) return absl::DataLossError(absl::StrCat("cannot read all of ", path));
  return contents;
}

absl::StatusOr<UniqueFd> take_descriptor(int tid, int process_pidfd, int number) {
  const UniqueFd thread(static_cast<int>(::syscall(SYS_pidfd_open, tid, kPidfdThread)));
  const int owner = thread ? thread.get() : process_pidfd;
  UniqueFd taken(static_cast<int>(::syscall(SYS_pidfd_getfd, owner, number, 0)));
  if (!taken) return failed("take over the descriptor of");
  return taken;
}

bool has_free_descriptor(const ProcFs& proc, int pid) {
  rlimit limit{};
  if (::prlimit(pid, RLIMIT_NOFILE, nullptr, &limit) != 0) return true;
  rlim_t below = 0;  // the new limit; open descriptors may be above it
  std::error_code error;
  std::filesystem::directory_iterator file(proc.path(pid, "fd"), error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    std::uint64_t number = 0;
    below += absl::SimpleAtoi(file->path().filename().string(), &number) && number < limit.rlim_cur;
  }
  return error || below < limit.rlim_cur;
}

absl::Status check_fresh_memfd(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) != O_RDWR)
    return refused("is not open for reading and writing");
  struct stat info {};
  struct statfs place {};
  if (::fstat(fd, &info) != 0 || ::fstatfs(fd, &place) != 0) return failed("examine");
  if (!S_ISREG(info.st_mode) || info.st_nlink != 0 || place.f_type != TMPFS_MAGIC)
    return refused("is not a file in memory");
  // Other tmpfs files have the seal that forbids sealing.
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & ~kSealExec) != 0)
    return refused("is already sealed or does not support seals");
  if (info.st_size != 0) return refused("is not empty");
  return absl::OkStatus();
}

absl::Status fill_memfd(int fd, std::span<const std::byte> contents) {
  RETURN_IF_ERROR(write_all(fd, contents));
  // The kernel refuses this while any process has the file mapped for writing.
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) return failed("seal");
  return check_contents(fd, contents);
}

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && same_file(first, second);
}

bool is_mapping_of(const Mapping& mapping, int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && mapping.device == info.st_dev && mapping.inode == info.st_ino;
}

}  // namespace memprofd
