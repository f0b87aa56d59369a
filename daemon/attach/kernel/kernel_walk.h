// SPDX-License-Identifier: Apache-2.0
// What can be had where the kernel cannot walk callstacks, before Linux 5.17: the runtime's
// capture.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/kernel/capture_mode.h"

namespace memprofd {

// Whether this kernel has the BPF loop helper, with which it walks; asked once.
bool kernel_can_walk();

// kUnimplemented where it cannot: "WHAT: the kernel cannot ...".
absl::Status check_kernel_walks(std::string_view what, bool can_walk = kernel_can_walk());

// Who captures callstacks here when that was asked for.
absl::StatusOr<CaptureMode> capture_here(CaptureMode asked, bool can_walk = kernel_can_walk());

}  // namespace memprofd
