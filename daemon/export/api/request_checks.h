// SPDX-License-Identifier: Apache-2.0
// Checks that all request handlers share.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace memprofd {

// kInvalidArgument for what no process has.
inline absl::Status check_pid(int pid) {
  if (pid > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("bad pid ", pid, ": it is a positive number"));
}

}  // namespace memprofd
