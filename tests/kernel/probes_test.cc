// SPDX-License-Identifier: Apache-2.0
// Where probes go, when they go away, and whom they cost, with both kinds of them. Needs root.
#include <bpf/bpf.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <string>

#include "daemon/attach/kernel/bpf_statistics.h"
#include "daemon/attach/kernel/safe_point.h"
#include "tests/kernel/probe_kinds_fixture.h"

namespace memprofd {
namespace {

constexpr unsigned char kBreakpoint = 0xcc;

using ProbesTest = ProbeKindsTest;
INSTANTIATE_TEST_SUITE_P(Kinds, ProbesTest, kProbeKinds, kind_name);

TEST_P(ProbesTest, AllKindsOfEventsArrive) {
  auto side = load(config());
  attach_all(*side);
  EXPECT_EQ(target_->semaphore(), 1);
  place({{functions_[0]}});
  target_->collect(0);
  const int tid = target_->collect_on_new_thread(0);
  target_->batch(0, 0, 0, 1);
  target_->register_frametable();
  std::vector<std::uint32_t> kinds;
  for (const Record& record : take(side)) kinds.push_back(record.kind());
  EXPECT_NE(tid, target_->pid());
  EXPECT_THAT(kinds, testing::UnorderedElementsAre(MEMPROF_EVENT_CAPTURE, MEMPROF_EVENT_CAPTURE,
                                                   MEMPROF_EVENT_LIFECYCLE, MEMPROF_EVENT_BATCH,
                                                   MEMPROF_EVENT_LIFECYCLE));
  side->probes().detach();
  EXPECT_EQ(target_->semaphore(), 0);
  target_->collect(0);
  EXPECT_EQ(take(side).size(), 0u);
}

// Whoever reads the ring seldom hears at once what becomes of the program, and not each sample.
TEST_P(ProbesTest, WhatBecomesOfTheProgramWakesTheReader) {
  auto side = load(config());
  attach_all(*side);
  place({{functions_[0]}});
  const auto woken = [&] {
    epoll_event event{};
    return ::epoll_wait(side.ring->epoll_fd(), &event, 1, 0);
  };
  EXPECT_GE(woken(), 0);  // a descriptor that is new has been looked at
  target_->collect(0);
  EXPECT_EQ(woken(), 0);
  target_->register_frametable();
  EXPECT_TRUE(eventually([&] { return woken() == 1; }));
}

// The bytes at a program's entry, as its process has them.
std::array<unsigned char, 16> entry_code(int pid) {
  const std::string proc = "/proc/" + std::to_string(pid);
  Elf64_Ehdr header{};
  std::ifstream(proc + "/exe", std::ios::binary)
      .read(reinterpret_cast<char*>(&header), sizeof header);
  std::uint64_t start = 0;
  std::ifstream(proc + "/maps") >> std::hex >> start;
  std::array<unsigned char, 16> code{};
  const UniqueFd memory(::open((proc + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(
      ::pread(memory.get(), code.data(), code.size(), static_cast<off_t>(start + header.e_entry)),
      static_cast<ssize_t>(code.size()));
  return code;
}

std::uint64_t entry_offset(int pid) {
  Elf64_Ehdr header{};
  std::ifstream("/proc/" + std::to_string(pid) + "/exe", std::ios::binary)
      .read(reinterpret_cast<char*>(&header), sizeof header);
  return header.e_entry;  // position independent: its first segment lies at 0
}

TEST_P(ProbesTest, TheProgramThatCameByExecGetsNoBreakpoint) {
  auto side = load(config());
  target_->exec_sleep();
  const auto untouched = entry_code(target_->pid());
  ASSERT_NE(untouched[0], kBreakpoint);
  const std::uint64_t offset = entry_offset(target_->pid());
  // The file that was open before the exec. Whether the attach succeeds is not the point.
  (void)side->probes().attach(Probe::kCapture, {.file = program_file_, .offset = offset});
  (void)SafePoint::attach(target_->pid(), {.file = program_file_, .offset = offset});
  (void)side->probes().attach(Probe::kBatch,
                              {.file = program_file_, .offset = offset, .semaphore_offset = 0});
  EXPECT_EQ(entry_code(target_->pid()), untouched);
  side->probes().detach();
  // The same at the file that it runs, so that the above could have failed.
  const std::string exe = "/proc/" + std::to_string(target_->pid()) + "/exe";
  ASSERT_EQ(side->probes().attach(Probe::kCapture, {.file = std::make_shared<const UniqueFd>(
                                                        ::open(exe.c_str(), O_RDONLY | O_CLOEXEC)),
                                                    .offset = offset}),
            absl::OkStatus());
  EXPECT_EQ(entry_code(target_->pid())[0], kBreakpoint);
  side->probes().detach();
  EXPECT_EQ(entry_code(target_->pid()), untouched);
}

// A file in memory with a probe in its first page and a semaphore where its second begins.
SharedFd make_library() {
  auto file = std::make_shared<const UniqueFd>(::memfd_create("library", MFD_CLOEXEC));
  const auto page = static_cast<off_t>(sysconf(_SC_PAGESIZE));
  const std::array<unsigned char, 2> code = {0x90, 0xc3};  // nop, ret
  EXPECT_EQ(::ftruncate(file->get(), 2 * page), 0);
  EXPECT_EQ(::pwrite(file->get(), code.data(), code.size(), 0), 2);
  return file;
}

TEST_P(ProbesTest, AFileMappedLaterComesWithItsSemaphoreUp) {
  const SharedFd library = make_library();
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  auto side = load(config());
  ASSERT_EQ(side->probes().attach(Probe::kBatch,
                                  {.file = library, .offset = 0, .semaphore_offset = page}),
            absl::OkStatus());
  EXPECT_EQ(target_->map_file(library->get()), 1);
  target_->call_mapped();
  EXPECT_EQ(take(side).size() + side->counters().drops[MEMPROF_DROP_BATCH_BAD_COUNT] +
                side->counters().drops[MEMPROF_DROP_BATCH_UNREADABLE],
            1u);
}

TEST_P(ProbesTest, ForkedChildrenAreLeftWithTheSemaphoreDown) {
  auto side = load(config());
  attach_all(*side);
  place({{functions_[0]}});
  ASSERT_GT(target_->fork_child(), 0);
  target_->collect(0);
  // Whatever the child does at the probes is not the target's.
  for (const Record& record : take(side))
    EXPECT_EQ(record.as<memprof_event_header>().tid, static_cast<std::uint32_t>(target_->pid()));
  side->probes().detach();
  EXPECT_EQ(target_->ask_child(), 0);
  EXPECT_EQ(target_->semaphore(), 0);
}

TEST_P(ProbesTest, TheSemaphoreFallsWhenTheDaemonIsKilled) {
  const int daemon = fork();
  if (daemon == 0) {
    auto side = KernelSide::load(config(), {10, program_.slots(10)});
    if (side.ok() && (*side)->probes().attach(Probe::kBatch, batch_site()).ok()) pause();
    _exit(1);
  }
  EXPECT_TRUE(eventually([&] { return target_->semaphore() == 1; }));
  kill(daemon, SIGKILL);
  waitpid(daemon, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return target_->semaphore() == 0; }));
}

TEST_P(ProbesTest, ATargetsHitsRunNoProgramOfOtherTargets) {
  const auto statistics = BpfStatistics::enable();
  ASSERT_TRUE(statistics) << "root, in a kernel with BPF statistics";
  const auto [targets, others] = attach_many(5);
  auto side = load(config());
  attach_all(*side);
  place({{functions_[0]}});
  for (int i = 0; i < 10; ++i) target_->collect(0);
  EXPECT_GE(side->probes().runs()->hits, 10u);
  for (const auto& other : others) EXPECT_EQ(other->probes().runs()->hits, 0u);
}

// A sum that lacks a program would be less than the one before it.
TEST_P(ProbesTest, RunsThatTheKernelCannotTellAreNone) {
  auto side = load(config());
  attach_all(*side);
  EXPECT_TRUE(side->probes().runs());
  const pid_t child = fork();
  if (child == 0) {
    close_range(STDERR_FILENO + 1, ~0u, 0);
    _exit(side->probes().runs().has_value() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// What the kernel waits for, it waits for together.
TEST_P(ProbesTest, ManyTargetsAreLetGoOfTogether) {
  const auto [targets, sides] = attach_many(20);
  const auto time = [](const auto& action) {
    const auto begin = std::chrono::steady_clock::now();
    action();
    return std::chrono::steady_clock::now() - begin;
  };
  const auto one = time([&] { sides[0]->probes().detach(); });
  const auto rest = time([&] {
    for (const auto& side : sides) side->probes().begin_detach();
    for (const auto& side : sides) side->probes().detach();
  });
  // 19 times as many. Perf events are closed one after the other, whoever closes them.
  if (GetParam() == UprobeKind::kMultiLink) {
    EXPECT_LT(rest, 10 * one);
  }
  for (const auto& target : targets) EXPECT_EQ(target->semaphore(), 0);
}

// In a mount namespace of its own, where the kernel seems to have no type information.
int without_kernel_types(const std::function<bool()>& test) {
  const int child = fork();
  if (child == 0) {
    const bool hidden = unshare(CLONE_NEWNS) == 0 &&
                        mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                        mount("none", "/sys/kernel/btf", "tmpfs", 0, nullptr) == 0;
    _exit(!hidden ? 2 : test() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_P(ProbesTest, OnlyForksNeedTheKernelsTypes) {
  KernelConfig settings = config();
  EXPECT_EQ(without_kernel_types([&] {
              return KernelSide::load(settings, {10, program_.slots(10)}).ok();
            }),
            0);
  settings.follow_forks = true;
  EXPECT_EQ(without_kernel_types([&] {
              const auto status = KernelSide::load(settings, {10, program_.slots(10)}).status();
              return absl::IsUnimplemented(status) &&
                     status.message().find("/sys/kernel/btf/vmlinux") != absl::string_view::npos;
            }),
            0);
}

}  // namespace
}  // namespace memprofd
