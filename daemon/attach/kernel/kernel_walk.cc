// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_walk.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/attach/kernel/kernel_features.h"
#include "daemon/util/status_macros.h"

namespace memprofd {

bool kernel_can_walk() {
  // If the test itself fails, the error of the following load contains the reason.
  static const bool can = real_bpf_probes().loop() != 0;
  return can;
}

absl::Status check_kernel_walks(std::string_view what, bool can_walk) {
  if (can_walk) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(absl::string_view(what.data(), what.size()),
                                               ": this kernel cannot walk callstacks, because it "
                                               "has no BPF loop helper; boot Linux 5.17 or later"));
}

absl::StatusOr<CaptureMode> capture_here(CaptureMode asked, bool can_walk) {
  if (can_walk || asked == CaptureMode::kRuntime || asked == CaptureMode::kAgent) return asked;
  if (asked == CaptureMode::kKernel) return check_kernel_walks("--capture kernel", can_walk);
  return CaptureMode::kRuntime;
}

}  // namespace memprofd
