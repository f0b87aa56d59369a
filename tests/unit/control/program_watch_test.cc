// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/program_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/util/refusal.h"
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

// Has its own /proc, and answers attaches by pid.
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
        .interval = milliseconds(1),
        .book = book_,
        .examine = [this](const std::string& path, const std::string&,
                          FileId) -> std::optional<FileVerdict> { return examine(path); }});
  }
  // Reads the verdict from the file.
  std::optional<FileVerdict> examine(const std::string& path) {
    ++examined_;
    std::ifstream file(path);
    std::string word;
    file >> word;
    if (word == "ocaml") return FileVerdict{true, Discovery::kNoRule, "OCaml 4.14"};
    if (word == "bytecode") return FileVerdict{true, Discovery::kBytecode, "bytecode"};
    return word.empty() ? std::nullopt : std::make_optional(FileVerdict());
  }
  // Waits until a search has found the program with this outcome.
  DiscoveredProgram found(int pid, Discovery outcome) {
    for (;;) {
      for (const DiscoveredProgram& program : book_->get().programs) {
        if (program.pid == pid && program.outcome == outcome) return program;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  absl::Status attach(int pid, std::uint64_t start) {
    const MutexLock lock(mutex_);
    attached_.emplace_back(pid, start);
    changed_.notify_all();
    const auto answer = answers_.find(pid);
    return answer == answers_.end() ? absl::OkStatus() : answer->second;
  }
  // Waits until there have been that many.
  std::vector<std::pair<int, std::uint64_t>> attached(std::size_t number) {
    const MutexLock lock(mutex_);
    while (attached_.size() < number) changed_.wait(mutex_);
    return attached_;
  }
  // Waits until a scan has seen all current processes.
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
  const std::shared_ptr<DiscoveryStore> book_ = std::make_shared<DiscoveryStore>();
  std::atomic<int> examined_ = 0;

 private:
  Mutex mutex_;
  Condition changed_;
  std::vector<std::pair<int, std::uint64_t>> attached_ ABSL_GUARDED_BY(mutex_);
};

using Attached = std::vector<std::pair<int, std::uint64_t>>;

TEST_F(ProgramWatchTest, AttachesOnceToRunningAndNewPrograms) {
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

TEST_F(ProgramWatchTest, ARefusedAttachIsTriedAgainAndThenSkipped) {
  answers_[10] = absl::FailedPreconditionError("no OCaml program");
  add_process(10, "/opt/shop", 1000);
  const auto watch = this->watch({"shop", "marker"});
  EXPECT_EQ(attached(3), (Attached{{10, 1000}, {10, 1000}, {10, 1000}}));
  wait_for_scans(100);
  wait_for_scans(101);
  EXPECT_EQ(count(), 5u);
}

TEST_F(ProgramWatchTest, AProfiledProgramIsDone) {
  answers_[10] = absl::AlreadyExistsError("is profiled already");
  add_process(10, "/opt/shop", 1000);
  const auto watch = this->watch({"shop", "marker"});
  attached(1);
  wait_for_scans(100);
  wait_for_scans(101);
  EXPECT_EQ(count(), 3u);
}

TEST_F(ProgramWatchTest, SaysWhyAProgramThatARuleNamesIsNotProfiled) {
  answers_[10] = refused(Refusal::kBytecode, "pid 10 runs OCaml bytecode");
  answers_[11] = absl::FailedPreconditionError("pid 11 is traced");
  add_process(10, "/opt/shop", 1000);
  add_process(11, "/opt/shop", 1000);
  const auto watch = this->watch({"shop"});
  const DiscoveredProgram bytecode = found(10, Discovery::kBytecode);
  EXPECT_EQ(bytecode.rule, "shop");
  EXPECT_EQ(bytecode.reason, "runs OCaml bytecode");
  EXPECT_EQ(bytecode.start_time_ticks, 1000u);
  EXPECT_EQ(found(11, Discovery::kRefused).reason, "is traced");
}

TEST_F(ProgramWatchTest, FindsOcamlProgramsThatNoRuleNames) {
  const TempDir files;
  add_process(10, files.write("mail", "ocaml"), 1000);
  add_process(11, files.write("ocamlrun", "bytecode"), 1000);
  add_process(12, files.write("bash", "c"), 1000);
  add_process(13, files.path("mail"), 1000);
  const auto watch = this->watch({});
  EXPECT_EQ(found(10, Discovery::kNoRule).exe, files.path("mail"));
  EXPECT_EQ(found(11, Discovery::kBytecode).reason, "bytecode");
  found(13, Discovery::kNoRule);
  EXPECT_EQ(book_->get().programs.size(), 3u);
  EXPECT_EQ(examined_, 3) << "each file once";
}

// The read may have failed because the process ended meanwhile.
TEST_F(ProgramWatchTest, ExaminesAFileAgainThatCouldNotBeRead) {
  const TempDir files;
  add_process(10, files.write("mail", ""), 1000);
  const auto watch = this->watch({});
  while (examined_ < 2) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(book_->get().programs.empty());
  files.write("mail", "ocaml");
  found(10, Discovery::kNoRule);
}

TEST_F(ProgramWatchTest, CountsProgramsThatEndBeforeTheyAreProfiled) {
  answers_[10] = absl::NotFoundError("pid 10 ended while it was being looked at");
  add_process(10, "/opt/shop", 1000);
  const auto watch = this->watch({"shop", "marker"});
  attached(1);
  remove_process(10);
  while (book_->get().ended_early != 1) std::this_thread::sleep_for(milliseconds(1));
  wait_for_scans(100);
  wait_for_scans(101);
  EXPECT_EQ(book_->get().ended_early, 1u) << "those that were attached to do not count";
}

}  // namespace
}  // namespace memprofd
