// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/bpf_statistics.h"

#include <bpf/bpf.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace memprofd {

absl::StatusOr<BpfStatistics> BpfStatistics::enable() {
  UniqueFd fd(bpf_enable_stats(BPF_STATS_RUN_TIME));
  if (fd) return BpfStatistics(std::move(fd));
  const int error = errno;
  const std::string text =
      absl::StrCat("an overhead budget cannot be kept: the kernel does not measure BPF programs (",
                   std::strerror(error), "); ");
  if (error == EPERM || error == EACCES) {
    return absl::PermissionDeniedError(
        absl::StrCat(text, "run as root or with CAP_SYS_ADMIN, or leave out --max-overhead"));
  }
  return absl::UnavailableError(absl::StrCat(text, "leave out --max-overhead"));
}

}  // namespace memprofd
