// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/state_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/kit/fake_profile.h"
#include "tests/kit/recording.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

namespace fs = std::filesystem;

class StateStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<StateStore> open(std::uint64_t max_bytes = 1u << 30) {
    auto store = StateStore::open({.directory = directory_, .max_bytes = max_bytes});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  std::string file(int pid) const { return absl::StrCat(directory_, "/", pid, ".target"); }

  TempDir dir_;
  const std::string directory_ = dir_.path("state");
};

// A target that has run for some seconds.
ProfileSnapshotPtr target(int pid, bool ended = false, int seconds = 5) {
  Recording recording;
  recording.symbolizer = std::make_shared<testing::TableSymbolizer>();
  for (int second = 0; second < seconds; ++second) {
    for (std::uint32_t i = 0; i < 50; ++i) recording.alloc(second * 50 + i + 1, 1 + i % 20);
    recording.advance(kSecond);
  }
  auto snapshot = std::make_shared<ProfileSnapshot>(recording.snapshot());
  snapshot->info.pid = pid;
  snapshot->info.state = ended ? TargetState::kExited : TargetState::kSampling;
  snapshot->time_ns += static_cast<std::uint64_t>(pid);
  if (ended) snapshot->history.unfinished = false;
  return snapshot;
}

TEST_F(StateStoreTest, OneMemprofdADirectory) {
  const auto store = open();
  const auto second = StateStore::open({.directory = directory_});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find(directory_), std::string::npos);
  EXPECT_NE(second.status().message().find("--state.directory"), std::string::npos);
}

TEST_F(StateStoreTest, TheDirectoryIsForItsOwnerAlone) {
  fs::create_directory(directory_);
  fs::permissions(directory_, fs::perms::all);
  const auto store = open();
  struct stat status {};
  ASSERT_EQ(::stat(directory_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(StateStoreTest, ADirectoryOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "a directory of another user is made by root only";
  fs::create_directory(directory_);
  ASSERT_EQ(::chown(directory_.c_str(), 4711, 4711), 0);
  const auto store = StateStore::open({.directory = directory_});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(store.status().message().find("user 4711"), std::string::npos) << store.status();
}

TEST_F(StateStoreTest, SaysWhyADirectoryCannotBeUsed) {
  dir_.write("file", "");
  const auto store = StateStore::open({.directory = dir_.path("file")});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(store.status().message().find("--state.directory"), std::string::npos);
}

TEST_F(StateStoreTest, TheNextOneHasWhatWasWritten) {
  open()->write({target(7), target(8)});
  const auto next = open();
  const std::vector<StoredTarget> stored = next->take_stored();
  ASSERT_EQ(stored.size(), 2u);
  for (const StoredTarget& one : stored) {
    EXPECT_FALSE(one.boot_id.empty());
    EXPECT_EQ(one.snapshot->counters.alloc_events, 250u);
  }
  EXPECT_EQ(next->bytes(), fs::file_size(file(7)) + fs::file_size(file(8)));
}

TEST_F(StateStoreTest, FilesThatCannotBeReadAreRemovedAndOthersLeft) {
  fs::create_directory(directory_);
  dir_.write("state/7.target", "of an older memprofd");
  dir_.write("state/8.target.new", "torn");
  dir_.write("state/notes.txt", "of somebody");
  const auto store = open();
  EXPECT_TRUE(store->take_stored().empty());
  EXPECT_FALSE(fs::exists(file(7)));
  EXPECT_FALSE(fs::exists(file(8) + ".new"));
  EXPECT_TRUE(fs::exists(directory_ + "/notes.txt"));
}

TEST_F(StateStoreTest, AFileOfAnotherPidIsRemoved) {
  open()->write({target(7)});
  fs::rename(file(7), file(9));
  EXPECT_TRUE(open()->take_stored().empty());
  EXPECT_FALSE(fs::exists(file(9)));
}

TEST_F(StateStoreTest, AForgottenTargetIsRemoved) {
  open()->write({target(7), target(8)});
  const auto store = open();
  store->keep({target(8)});
  EXPECT_TRUE(fs::exists(file(7))) << "not shown yet";
  store->keep({target(7), target(8)});
  store->write({target(8)});
  EXPECT_TRUE(fs::exists(file(7))) << "these were not all";
  store->keep({target(8)});
  EXPECT_FALSE(fs::exists(file(7)));
  EXPECT_TRUE(fs::exists(file(8)));
}

TEST_F(StateStoreTest, TheOldestThatEndedGivesWay) {
  open()->write({target(1)});
  const std::uint64_t each = fs::file_size(file(1));
  fs::remove(file(1));
  const auto store = open(each * 7 / 2);
  store->write({target(2, true), target(1, true), target(3)});
  EXPECT_TRUE(fs::exists(file(1)) && fs::exists(file(2)) && fs::exists(file(3)));
  store->write({target(2, true), target(1, true), target(3), target(4)});
  EXPECT_FALSE(fs::exists(file(1))) << "it ended first";
  EXPECT_TRUE(fs::exists(file(2)) && fs::exists(file(3)) && fs::exists(file(4)));
  EXPECT_EQ(store->write_errors(), 0u);
  EXPECT_LE(store->bytes(), each * 7 / 2);
  store->write({target(2, true), target(1, true), target(3), target(4)});
  EXPECT_FALSE(fs::exists(file(1))) << "and does not come back";
}

TEST_F(StateStoreTest, WithoutRoomForThoseThatRunErrorsAreCounted) {
  const auto store = open(100);
  store->write({target(1), target(2)});
  EXPECT_EQ(store->write_errors(), 2u);
  EXPECT_EQ(store->bytes(), 0u);
}

}  // namespace
}  // namespace memprofd
