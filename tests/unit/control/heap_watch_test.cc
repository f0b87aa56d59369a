// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/heap_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/kit/fake_service.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using testing::FakeService;
using testing::fixed_target;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::vector<std::string> names_in(const TempDir& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.insert(entry.path().filename());
  }
  return {names.begin(), names.end()};
}

std::string taken_by(const HeapFiles& files, const std::string& bytes, std::time_t now) {
  auto file = files.create("shop server", 42, now);
  if (!file.ok()) return std::string(file.status().message());
  absl::Status status = file->write(bytes);
  if (status.ok()) status = file->finish();
  return std::string(status.message());
}

TEST(HeapFiles, AreTheOwnersAloneAndSayWhatTheyAreOf) {
  const TempDir folder;
  const HeapFiles files({.directory = folder.path()});
  EXPECT_TRUE(files.check().ok());
  EXPECT_EQ("", taken_by(files, "one", 0));
  EXPECT_EQ("", taken_by(files, "two", 0));
  EXPECT_THAT(names_in(folder),
              ::testing::ElementsAre("auto-shop_server-42-19700101T000000Z-1.heap",
                                     "auto-shop_server-42-19700101T000000Z.heap"));
  struct stat status {};
  ASSERT_EQ(0, ::stat((folder.path() + "/" + names_in(folder)[1]).c_str(), &status));
  EXPECT_EQ(0600u, status.st_mode & 0777u);
}

TEST(HeapFiles, TheOldestGoesAndOthersStay) {
  const TempDir folder;
  folder.write("mine.heap", "x");
  const HeapFiles files({.directory = folder.path(), .keep = 2});
  for (std::time_t now = 0; now < 3; ++now) EXPECT_EQ("", taken_by(files, "x", now));
  EXPECT_THAT(names_in(folder),
              ::testing::ElementsAre("auto-shop_server-42-19700101T000001Z.heap",
                                     "auto-shop_server-42-19700101T000002Z.heap", "mine.heap"));
}

TEST(HeapFiles, TakeNoMoreThanIsAllowed) {
  const TempDir folder;
  const HeapFiles files({.directory = folder.path(), .max_bytes = 10});
  EXPECT_THAT(taken_by(files, "more than ten", 0), HasSubstr("--snapshot.max-bytes allows"));
  EXPECT_TRUE(names_in(folder).empty()) << "nothing is left of it";
  EXPECT_EQ("", taken_by(files, "0123456789", 1));
  EXPECT_THAT(taken_by(files, "", 2), HasSubstr("remove some, or raise"));
}

TEST(HeapFiles, NeedADirectory) {
  const HeapFiles files({.directory = "/nowhere/at/all"});
  EXPECT_THAT(std::string(files.check().message()), HasSubstr("with --snapshot.directory"));
}

class HeapWatchTest : public ::testing::Test {
 protected:
  // Looks again and again until then.
  template <typename Done>
  void watch_until(const std::string& rule, Done done, double rest_seconds = 0) {
    HeapWatch watch(service_, {.rules = {*parse_heap_rule(rule)},
                               .files = {.directory = folder_.path()},
                               .rest_seconds = rest_seconds,
                               .count = [this](const absl::Status&) { ++refused_; },
                               .interval = milliseconds(1)});
    while (!done()) std::this_thread::sleep_for(milliseconds(1));
  }
  std::size_t asked() { return service_.calls().size(); }

  FakeService service_{{fixed_target()}};
  const TempDir folder_;
  std::atomic<int> refused_{0};
};

TEST_F(HeapWatchTest, TakesOneIntoAFile) {
  watch_until("live>1KiB", [&] {
    return !names_in(folder_).empty() && names_in(folder_)[0].ends_with(".heap");
  });
  EXPECT_THAT(service_.calls(), ::testing::ElementsAre("snapshot 4242 0.05"));
  EXPECT_THAT(names_in(folder_)[0], MatchesRegex("auto-server_exe-4242-.*\\.heap"));
  EXPECT_EQ("onetwo", read_file(folder_.path() + "/" + names_in(folder_)[0]));
}

TEST_F(HeapWatchTest, ARefusedOneIsTriedAgainAfterARest) {
  service_.fail_with(absl::OutOfRangeError("too long"));
  watch_until("live>1KiB", [&] { return asked() >= 3; });
  EXPECT_TRUE(names_in(folder_).empty());
}

TEST_F(HeapWatchTest, OneThatEndsInTheMiddleLeavesNothing) {
  service_.break_snapshots_with(absl::DataLossError("does not add up"));
  watch_until("live>1KiB", [&] { return asked() >= 2; });
  EXPECT_TRUE(names_in(folder_).empty());
}

TEST_F(HeapWatchTest, WhereThereIsNoRoomTheProgramIsNotAsked) {
  folder_.write("auto-full.heap", std::string(10, 'x'));
  HeapWatch watch(service_, {.rules = {*parse_heap_rule("live>1KiB")},
                             .files = {.directory = folder_.path(), .max_bytes = 10},
                             .rest_seconds = 0,
                             .count = [this](const absl::Status&) { ++refused_; },
                             .interval = milliseconds(1)});
  while (refused_ < 2) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(0u, asked());
}

}  // namespace
}  // namespace memprofd
