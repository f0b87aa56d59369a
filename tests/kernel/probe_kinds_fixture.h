// SPDX-License-Identifier: Apache-2.0
// Tests of probes run with both kinds of them, where the kernel has both.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/kernel/kernel_side_fixture.h"

namespace memprofd {

class ProbeKindsTest : public KernelSideTest, public testing::WithParamInterface<UprobeKind> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    if (GetParam() == UprobeKind::kMultiLink && best_uprobe_kind() != UprobeKind::kMultiLink)
      GTEST_SKIP() << "this kernel has no uprobe_multi links (Linux 6.6)";
    KernelSideTest::SetUp();
  }
  KernelConfig config() {
    KernelConfig config = KernelSideTest::config();
    config.uprobes = GetParam();
    return config;
  }
  using Targets = std::vector<std::unique_ptr<ProbeTarget>>;
  using Sides = std::vector<LoadedSide>;
  // Further targets, all there before the first is attached: a forked process keeps the links
  // that are open.
  std::pair<Targets, Sides> attach_many(int count) {
    std::pair<Targets, Sides> many;
    for (int i = 0; i < count; ++i) many.first.push_back(std::make_unique<ProbeTarget>());
    for (const auto& target : many.first) {
      KernelConfig settings = config();
      settings.pid = target->pid();
      many.second.push_back(load(settings));
      attach_all(*many.second.back());
    }
    return many;
  }
  static bool eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
};

inline const auto kProbeKinds = testing::Values(UprobeKind::kMultiLink, UprobeKind::kPerfEvent);

inline std::string kind_name(const testing::TestParamInfo<UprobeKind>& info) {
  return info.param == UprobeKind::kMultiLink ? "MultiLink" : "PerfEvent";
}

}  // namespace memprofd
