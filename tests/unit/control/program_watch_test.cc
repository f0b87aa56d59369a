// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/program_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>

#include "daemon/util/threads/mutex.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

TEST(ProgramNames, AreOfTheFileOrOfThePath) {
  EXPECT_TRUE(is_named("/opt/shop/bin/shop-server", "shop-*"));
  EXPECT_TRUE(is_named("/opt/shop/bin/shop-server", "shop-server"));
  EXPECT_FALSE(is_named("/opt/shop-x/bin/server", "shop-*"));
  EXPECT_FALSE(is_named("/opt/shop/bin/shop-server", "shop"));
  EXPECT_TRUE(is_named("/opt/shop/bin/shop-server", "/opt/shop/*"));
  EXPECT_FALSE(is_named("/srv/opt/shop/bin/server", "/opt/shop/*"));
  EXPECT_TRUE(is_named("shop", "shop"));
}

TEST(ProgramNames, OutliveAnUpgradeOfTheFile) {
  EXPECT_TRUE(is_named("/opt/shop (deleted)", "shop"));
  EXPECT_TRUE(is_named("/opt/shop (deleted)", "/opt/shop"));
}

// A /proc of its own, and answers to attaches by pid.
class ProgramWatchTest : public ::testing::Test {
 protected:
  void add_process(int pid, const std::string& exe, int start_time) {
    std::string stat = std::to_string(pid) + " (x) S";
    for (int field = 4; field < 22; ++field) stat += " 0";
    proc_.write(std::to_string(pid) + "/stat", stat + " " + std::to_string(start_time) + " 0\n");
    const std::string link = proc_.path(std::to_string(pid) + "/exe");
    std::filesystem::remove(link);
    std::filesystem::create_symlink(exe, link);
  }
  void remove_process(int pid) { std::filesystem::remove_all(proc_.path(std::to_string(pid))); }
  std::unique_ptr<ProgramWatch> watch(std::vector<std::string> patterns) {
    return std::make_unique<ProgramWatch>(ProgramWatchOptions{
        .patterns = std::move(patterns),
        .attach = [this](int pid, std::uint64_t start) { return attach(pid, start); },
        .proc_root = proc_.path(),
        .interval = milliseconds(1)});
  }
  absl::Status attach(int pid, std::uint64_t start) {
    const MutexLock lock(mutex_);
    attached_.emplace_back(pid, start);
    changed_.notify_all();
    const auto answer = answers_.find(pid);
    return answer == answers_.end() ? absl::OkStatus() : answer->second;
  }
  // Until there have been so many.
  std::vector<std::pair<int, std::uint64_t>> attached(std::size_t number) {
    const MutexLock lock(mutex_);
    while (attached_.size() < number) changed_.wait(mutex_);
    return attached_;
  }
  // Whoever is there now has been looked at.
  void wait_for_scans(int pid) {
    const std::size_t before = count();
    add_process(pid, "/bin/marker", 1);
    attached(before + 1);
    remove_process(pid);
  }
  std::size_t count() {
    const MutexLock lock(mutex_);
    return attached_.size();
  }

  const TempDir proc_;
  std::map<int, absl::Status> answers_;

 private:
  Mutex mutex_;
  Condition changed_;
  std::vector<std::pair<int, std::uint64_t>> attached_ ABSL_GUARDED_BY(mutex_);
};

using Attached = std::vector<std::pair<int, std::uint64_t>>;

TEST_F(ProgramWatchTest, AttachesOnceToWhatRunsAndToWhatStarts) {
  add_process(10, "/opt/shop", 1000);
  add_process(11, "/bin/bash", 1000);
  const auto watch = this->watch({"shop", "marker"});
  EXPECT_EQ(attached(1), (Attached{{10, 1000}}));
  add_process(12, "/opt/shop", 1001);
  EXPECT_EQ(attached(2), (Attached{{10, 1000}, {12, 1001}}));
  wait_for_scans(100);
  wait_for_scans(101);
  EXPECT_EQ(count(), 4u);
}

TEST_F(ProgramWatchTest, NoticesAnExecAndAPidThatIsUsedAgain) {
  add_process(10, "/bin/bash", 1000);
  const auto watch = this->watch({"shop", "marker"});
  wait_for_scans(100);
  add_process(10, "/opt/shop", 1000);
  EXPECT_EQ(attached(2).back(), (std::pair<int, std::uint64_t>{10, 1000}));
  wait_for_scans(101);  // the attach has ended
  wait_for_scans(102);
  add_process(10, "/opt/shop", 2000);
  EXPECT_EQ(attached(5).back(), (std::pair<int, std::uint64_t>{10, 2000}));
}

TEST_F(ProgramWatchTest, WhatIsRefusedIsTriedAgainAndThenLeftAlone) {
  answers_[10] = absl::FailedPreconditionError("no OCaml program");
  add_process(10, "/opt/shop", 1000);
  const auto watch = this->watch({"shop", "marker"});
  EXPECT_EQ(attached(3), (Attached{{10, 1000}, {10, 1000}, {10, 1000}}));
  wait_for_scans(100);
  wait_for_scans(101);
  EXPECT_EQ(count(), 5u);
}

TEST_F(ProgramWatchTest, WhatIsProfiledAlreadyIsDone) {
  answers_[10] = absl::AlreadyExistsError("is profiled already");
  add_process(10, "/opt/shop", 1000);
  const auto watch = this->watch({"shop", "marker"});
  attached(1);
  wait_for_scans(100);
  wait_for_scans(101);
  EXPECT_EQ(count(), 3u);
}

}  // namespace
}  // namespace memprofd
