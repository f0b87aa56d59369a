// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_features.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

namespace memprofd {
namespace {

namespace fs = std::filesystem;

// A machine on which everything is there; tests take things away.
class KernelFeaturesTest : public testing::Test {
 protected:
  KernelFeaturesTest() {
    std::string name = testing::TempDir() + "featuresXXXXXX";
    root_ = mkdtemp(name.data());
    write("sys/bus/event_source/devices/uprobe/type", "8\n");
    write("sys/bus/event_source/devices/uprobe/format/ref_ctr_offset", "config:32-63\n");
    write("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    write("sys/kernel/btf/vmlinux", "\x9f\xeb");
    write("proc/sys/kernel/osrelease", "6.1.0-50-amd64\n");
    write("proc/sys/kernel/yama/ptrace_scope", "1\n");
    write("proc/self/status", "Name:\tmemprofd\nCapEff:\t000001ffffffffff\nThreads:\t1\n");
  }
  ~KernelFeaturesTest() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void remove(const std::string& path) { ASSERT_GT(fs::remove_all(root_ / path), 0u); }

  std::vector<FeatureCheck> check() const {
    return check_kernel_features((root_ / "sys").string(), (root_ / "proc").string(),
                                 {.ring_buffer = [this] { return ring_buffer_; },
                                  .loop = [this] { return loop_; },
                                  .uprobe_multi = [this] { return uprobe_multi_; }});
  }
  // Names of the failed checks.
  std::set<std::string> failures() const {
    std::set<std::string> names;
    for (const auto& c : check())
      if (!c.ok) names.insert(c.name);
    return names;
  }
  FeatureCheck find(const std::string& name) const {
    for (const auto& c : check())
      if (c.name == name) return c;
    ADD_FAILURE() << "no check named " << name;
    return {};
  }

  fs::path root_;
  int ring_buffer_ = 1;
  int loop_ = 1;
  int uprobe_multi_ = 0;
};

using Names = std::set<std::string>;

TEST_F(KernelFeaturesTest, AllThere) {
  EXPECT_EQ(failures(), Names{});
  EXPECT_EQ(check().size(), 11u);
  EXPECT_EQ(missing_kernel_features(check()), "");
  EXPECT_TRUE(kernel_features_status(check()).ok());
  EXPECT_EQ(find("kernel").detail, "Linux 6.1.0-50-amd64");
  for (const auto& c : check()) EXPECT_EQ(c.remedy, "") << c.name;
}

TEST_F(KernelFeaturesTest, OldKernelIsNamedWithTheVersionNeeded) {
  ring_buffer_ = 0;
  EXPECT_EQ(failures(), Names{"BPF ring buffer"});
  EXPECT_EQ(kernel_features_status(check()),
            absl::UnimplementedError(
                "BPF ring buffer: not supported by this kernel (boot Linux 5.8 or later)"));
}

TEST_F(KernelFeaturesTest, WithoutTheLoopHelperTheRuntimeCaptures) {
  loop_ = 0;
  EXPECT_EQ(failures(), Names{"BPF loop helper"});
  EXPECT_EQ(find("BPF loop helper").detail,
            "not supported by this kernel: the runtime captures callstacks, and nothing can be "
            "observed");
  EXPECT_TRUE(kernel_features_status(check()).ok());
}

TEST_F(KernelFeaturesTest, WithoutKernelTypesTheRestWorks) {
  write("sys/kernel/btf/vmlinux", "");  // hidden by a mount
  EXPECT_EQ(failures(), Names{"kernel type information"});
  remove("sys/kernel/btf");
  EXPECT_EQ(failures(), Names{"kernel type information"});
  EXPECT_TRUE(kernel_features_status(check()).ok());
}

TEST_F(KernelFeaturesTest, PtraceScopeThreeForbidsAll) {
  write("proc/sys/kernel/yama/ptrace_scope", "2\n");
  EXPECT_EQ(find("ptrace scope").detail, "2; CAP_SYS_PTRACE is exempt");
  write("proc/sys/kernel/yama/ptrace_scope", "3\n");
  EXPECT_EQ(failures(), Names{"ptrace scope"});
  EXPECT_TRUE(absl::IsUnimplemented(kernel_features_status(check())));
  remove("proc/sys/kernel/yama");
  EXPECT_TRUE(find("ptrace scope").ok);
}

TEST_F(KernelFeaturesTest, RefusedQuestionIsNotAMissingFeature) {
  ring_buffer_ = -EPERM;
  const FeatureCheck c = find("BPF ring buffer");
  EXPECT_FALSE(c.ok);
  EXPECT_EQ(c.detail, "cannot ask the kernel: Operation not permitted");
  EXPECT_EQ(c.remedy, "run as root or with CAP_BPF and CAP_PERFMON");
}

TEST_F(KernelFeaturesTest, WhatTakesAPrivilegeToAskIsNotBlamedOnTheKernel) {
  write("proc/self/status", "CapEff:\t0000000000000000\n");
  ring_buffer_ = loop_ = 0;
  EXPECT_TRUE(find("BPF ring buffer").ok);
  EXPECT_TRUE(find("BPF loop helper").ok);
  for (const FeatureCheck& c : check()) {
    EXPECT_EQ((c.detail + c.remedy).find("Linux 6.6"), std::string::npos) << c.name;
  }
  EXPECT_EQ(missing_kernel_features(check()).find("boot Linux"), std::string::npos);
}

TEST_F(KernelFeaturesTest, NoUprobeEvents) {
  remove("sys/bus");
  EXPECT_EQ(failures(), (Names{"uprobe events", "uprobe semaphores"}));
}

TEST_F(KernelFeaturesTest, NoSemaphoreCounting) {
  remove("sys/bus/event_source/devices/uprobe/format/ref_ctr_offset");
  EXPECT_EQ(failures(), Names{"uprobe semaphores"});
}

TEST_F(KernelFeaturesTest, NoLockdownFileMeansNone) {
  remove("sys/kernel/security/lockdown");
  EXPECT_EQ(find("kernel lockdown").detail, "none");
}

TEST_F(KernelFeaturesTest, LockdownIsReported) {
  write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
  EXPECT_TRUE(find("kernel lockdown").ok);
  EXPECT_EQ(find("kernel lockdown").detail, "integrity; uses nothing that it forbids");
  write("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
  EXPECT_FALSE(find("kernel lockdown").ok);
  write("sys/kernel/security/lockdown", "]garbage[\n");
  EXPECT_EQ(find("kernel lockdown").detail, "none");
}

TEST_F(KernelFeaturesTest, MultiLinksNeedNoPerfEvents) {
  uprobe_multi_ = 1;
  remove("sys/bus");
  EXPECT_EQ(failures(), Names{});
}

TEST_F(KernelFeaturesTest, PerfEventsAskForCapSysAdmin) {
  // CAP_SYS_PTRACE (19), CAP_PERFMON (38), CAP_BPF (39).
  write("proc/self/status", "CapEff:\t000000c000080000\n");
  EXPECT_EQ(failures(), Names{"privilege to place probes"});
  ring_buffer_ = 0;
  EXPECT_TRUE(absl::IsPermissionDenied(kernel_features_status(check())));
}

TEST_F(KernelFeaturesTest, Capabilities) {
  uprobe_multi_ = 1;
  write("proc/self/status", "CapEff:\t0000000000000000\n");
  EXPECT_EQ(failures(), (Names{"privilege to load BPF", "privilege to look into targets"}));
  // CAP_SYS_PTRACE (19), CAP_PERFMON (38), CAP_BPF (39).
  write("proc/self/status", "CapEff:\t000000c000080000\n");
  EXPECT_EQ(failures(), Names{});
  // CAP_BPF without CAP_PERFMON.
  write("proc/self/status", "CapEff:\t0000008000080000\n");
  EXPECT_EQ(failures(), Names{"privilege to load BPF"});
  // CAP_SYS_ADMIN (21) stands for both.
  write("proc/self/status", "CapEff:\t0000000000280000\n");
  EXPECT_EQ(failures(), Names{});
}

TEST_F(KernelFeaturesTest, UnreadableStatusHoldsNothing) {
  remove("proc");
  EXPECT_EQ(failures(), (Names{"privilege to load BPF", "privilege to place probes",
                               "privilege to look into targets"}));
}

}  // namespace
}  // namespace memprofd
