// SPDX-License-Identifier: Apache-2.0
// Makes the kernel count runs and run time of all BPF programs of the machine while this exists. It
// adds some tens of nanoseconds to each run.
#pragma once

#include <optional>

#include "daemon/util/fd.h"

namespace memprofd {

class BpfStatistics {
 public:
  // Returns nullopt without CAP_SYS_ADMIN, or if the kernel does not support it.
  static std::optional<BpfStatistics> enable();

 private:
  explicit BpfStatistics(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace memprofd
