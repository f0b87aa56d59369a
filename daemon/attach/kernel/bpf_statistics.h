// SPDX-License-Identifier: Apache-2.0
// Has the kernel count runs and run time of BPF programs, all of the machine, as long as this
// lives. It adds some tens of nanoseconds to each run.
#pragma once

#include <optional>

#include "daemon/util/fd.h"

namespace memprofd {

class BpfStatistics {
 public:
  // Nothing without CAP_SYS_ADMIN, or where the kernel cannot.
  static std::optional<BpfStatistics> enable();

 private:
  explicit BpfStatistics(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace memprofd
