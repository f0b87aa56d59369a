// SPDX-License-Identifier: Apache-2.0
// Targets of the previous memprofd, when there are more than ended ones are kept.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "daemon/control/daemon.h"
#include "daemon/discover/proc_fs.h"
#include "tests/kit/fake_profile.h"
#include "tests/kit/recording.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

// Processes that run, and are no OCaml programs.
class Sleepers {
 public:
  explicit Sleepers(int number) {
    const char* const arguments[] = {"sleep", "100", nullptr};
    for (int i = 0; i < number; ++i) {
      pid_t pid = 0;
      char* const* const words = const_cast<char* const*>(arguments);
      EXPECT_EQ(::posix_spawnp(&pid, "sleep", nullptr, nullptr, words, environ), 0);
      pids_.push_back(pid);
    }
  }
  ~Sleepers() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  const std::vector<pid_t>& pids() const { return pids_; }

 private:
  std::vector<pid_t> pids_;
};

ProfileSnapshotPtr sampled(pid_t pid) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::TableSymbolizer>();
  recording.alloc(1, 1);
  recording.advance(kSecond);
  auto snapshot = std::make_shared<ProfileSnapshot>(recording.snapshot());
  snapshot->info.pid = pid;
  snapshot->info.state = TargetState::kSampling;
  snapshot->info.is_asked = true;
  snapshot->info.program.start_time_ticks = ProcFs().start_time(pid).value_or(0);
  return snapshot;
}

TEST(DaemonResume, NoneIsForgottenBeforeItIsInspected) {
  const TempDir folder;
  const Sleepers sleepers(130);
  std::vector<ProfileSnapshotPtr> all;
  for (const pid_t pid : sleepers.pids()) all.push_back(sampled(pid));
  StateStore::open({.directory = folder.path("state")}).value()->write(all);
  DaemonOptions options{.sampling_rate = 1e-4, .history_bytes = 1u << 24};
  options.retention = std::chrono::hours(1);
  Daemon daemon(options, StateStore::open({.directory = folder.path("state")}).value());
  std::size_t most = 0;
  for (;;) {
    const std::vector<ProfileSnapshotPtr> shown = daemon.snapshots();
    const auto waiting = std::ranges::count_if(shown, [](const ProfileSnapshotPtr& one) {
      return one->info.state == TargetState::kWaiting;
    });
    most = std::max(most, shown.size());
    if (waiting == 0 && most > 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(most, sleepers.pids().size());
  for (const ProfileSnapshotPtr& one : daemon.snapshots()) {
    EXPECT_EQ(one->info.state, TargetState::kFailed) << one->info.message;
  }
}

}  // namespace
}  // namespace memprofd
