// SPDX-License-Identifier: Apache-2.0
// Requirements of the kernel side on the running kernel and on this process's privileges, each with
// a remedy. Used by doctor and to explain a failed load.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace memprofd {

struct FeatureCheck {
  std::string name;  // "BPF ring buffer"
  bool ok = false;
  std::string detail;      // the finding
  std::string remedy;      // empty when ok
  bool required = true;    // otherwise memprofd does less without it
  bool privilege = false;  // of this process, not of the kernel
};

// Results of the bpf system call: 1 supported, 0 not supported, negative errno if the query itself
// failed.
struct BpfProbes {
  std::function<int()> ring_buffer;
  std::function<int()> loop;
  std::function<int()> uprobe_multi;
};
BpfProbes real_bpf_probes();

// Always the same checks in the same order. sys_root and proc_root are "/sys"
// and "/proc", or trees made by a test.
std::vector<FeatureCheck> check_kernel_features(const std::string& sys_root = "/sys",
                                                const std::string& proc_root = "/proc",
                                                const BpfProbes& probes = real_bpf_probes());

// The failed ones of the required checks as one line; empty if there are none.
std::string missing_kernel_features(const std::vector<FeatureCheck>& checks);

// Likewise: kPermissionDenied if one of them is a privilege, kUnimplemented if only the kernel
// lacks something.
absl::Status kernel_features_status(const std::vector<FeatureCheck>& checks);

}  // namespace memprofd
