// SPDX-License-Identifier: Apache-2.0
// The fallback if the kernel cannot walk callstacks, before Linux 5.17: runtime capture.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/attach/kernel/capture_mode.h"

namespace memprofd {

// True if this kernel has the BPF loop helper, which the walk needs; tested once.
bool kernel_can_walk();

// kUnimplemented if it cannot: "WHAT: the kernel cannot ...".
absl::Status check_kernel_walks(std::string_view what, bool can_walk = kernel_can_walk());

// The capture mode on this kernel if this mode is requested.
absl::StatusOr<CaptureMode> capture_here(CaptureMode asked, bool can_walk = kernel_can_walk());

}  // namespace memprofd
