// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/open_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/util/fd.h"

namespace memprofd {
namespace {

// The limit of memprofd.service: some 1,000 targets, or as many plugins.
constexpr rlim_t kEnough = 65536;

}  // namespace

std::string out_of_files(int error) {
  if (error == ENFILE) {
    return "the machine has too many files open; raise fs.file-max (sysctl)";
  }
  if (error != EMFILE) return "";
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t enough = std::max(kEnough, 2 * std::min(limit.rlim_cur, kEnough * kEnough));
  return fmt::format(
      "{} has too many files open: its limit is {}, and a target needs about {} and one per "
      "plugin; start it with LimitNOFILE={} (systemd) or ulimit -n {}",
      program_invocation_short_name, limit.rlim_cur, kFilesOfTarget, enough, enough);
}

absl::Status file_error(int error, std::string_view action) {
  const std::string out_of = out_of_files(error);
  if (!out_of.empty()) return absl::ResourceExhaustedError(fmt::format("{}: {}", action, out_of));
  return absl::ErrnoToStatus(error, absl::string_view(action.data(), action.size()));
}

absl::Status check_free_files(int number, std::string_view action) {
  std::vector<UniqueFd> files;
  while (static_cast<int>(files.size()) < number) {
    UniqueFd file(files.empty() ? ::eventfd(0, EFD_CLOEXEC)
                                : ::fcntl(files.front().get(), F_DUPFD_CLOEXEC, 0));
    if (!file) return file_error(errno, action);
    files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

}  // namespace memprofd
