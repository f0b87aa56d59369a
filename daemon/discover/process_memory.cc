#include "daemon/discover/process_memory.h"

#include <fmt/core.h>
#include <sys/uio.h>

#include <bit>
#include <cerrno>

#include "daemon/discover/proc_fs.h"

namespace memprofd {
namespace {

// transferred: what the system call returned for wanted bytes.
absl::Status check_transfer(int pid, std::uint64_t address, ssize_t transferred, std::size_t wanted,
                            std::string_view action) {
  if (transferred >= 0 && static_cast<std::size_t>(transferred) == wanted) return absl::OkStatus();
  const int error = transferred < 0 ? errno : EFAULT;
  if (error != EFAULT) return process_error(pid, error, fmt::format("{} the memory", action));
  return absl::OutOfRangeError(fmt::format("cannot {} {} bytes at {:#x} of pid {}: not all mapped",
                                           action, wanted, address, pid));
}

}  // namespace

absl::Status ProcessMemory::read(std::uint64_t address, std::span<std::byte> out) const {
  if (out.empty()) return absl::OkStatus();
  const iovec local = {out.data(), out.size()};
  const iovec remote = {std::bit_cast<void*>(address), out.size()};
  const ssize_t n = ::process_vm_readv(pid_, &local, 1, &remote, 1, 0);
  return check_transfer(pid_, address, n, out.size(), "read");
}

absl::Status write_process_memory(int pid, std::uint64_t address,
                                  std::span<const std::byte> bytes) {
  if (bytes.empty()) return absl::OkStatus();
  const iovec local = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  const iovec remote = {std::bit_cast<void*>(address), bytes.size()};
  const ssize_t n = ::process_vm_writev(pid, &local, 1, &remote, 1, 0);
  return check_transfer(pid, address, n, bytes.size(), "write");
}

}  // namespace memprofd
