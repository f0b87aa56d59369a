// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/heap_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/kit/heap_file.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string taken_by(const HeapFiles& files, const std::string& bytes, std::time_t now) {
  auto file = files.create("shop server", 42, now);
  if (!file.ok()) return std::string(file.status().message());
  absl::Status status = file->write(bytes);
  if (status.ok()) status = file->finish();
  return std::string(status.message());
}

TEST(HeapFiles, AreReadableByTheOwnerOnlyAndNameTheirProgram) {
  const TempDir folder;
  const HeapFiles files({.directory = folder.path()});
  EXPECT_TRUE(files.make_directory().ok());
  EXPECT_EQ("", taken_by(files, "one", 0));
  EXPECT_EQ("", taken_by(files, "two", 0));
  EXPECT_THAT(folder.names(), ElementsAre("auto-shop_server-42-19700101T000000Z-1.heap",
                                          "auto-shop_server-42-19700101T000000Z.heap"));
  struct stat status {};
  ASSERT_EQ(0, ::stat((folder.path() + "/" + folder.names()[1]).c_str(), &status));
  EXPECT_EQ(0600u, status.st_mode & 0777u);
}

TEST(HeapFiles, TheOldestGoesAndOthersStay) {
  const TempDir folder;
  folder.write("mine.heap", "x");
  const HeapFiles files({.directory = folder.path(), .keep = 2});
  for (std::time_t now = 0; now < 3; ++now) EXPECT_EQ("", taken_by(files, "x", now));
  EXPECT_THAT(folder.names(),
              ElementsAre("auto-shop_server-42-19700101T000001Z.heap",
                          "auto-shop_server-42-19700101T000002Z.heap", "mine.heap"));
}

TEST(HeapFiles, TakeNoMoreThanIsAllowed) {
  const TempDir folder;
  const HeapFiles files({.directory = folder.path(), .max_bytes = 10});
  EXPECT_THAT(taken_by(files, "more than ten", 0), HasSubstr("fill --snapshot.max-bytes"));
  EXPECT_TRUE(folder.names().empty()) << "nothing is left of it";
  EXPECT_EQ("", taken_by(files, "0123456789", 1));
  EXPECT_THAT(taken_by(files, "", 2), HasSubstr("remove some, or raise"));
}

TEST(HeapFiles, ALinkToItselfIsATakenName) {
  const TempDir folder;
  const std::string name = "auto-shop_server-42-19700101T000000Z.heap";
  folder.link(name, folder.path(name));
  const HeapFiles files({.directory = folder.path()});
  EXPECT_EQ("", taken_by(files, "one", 0));
  EXPECT_THAT(folder.names(), ElementsAre("auto-shop_server-42-19700101T000000Z-1.heap", name));
}

TEST(HeapFiles, AbandonedPartsAreRemovedAndDoNotCount) {
  const TempDir folder;
  folder.write("auto-shop-1-t.heap.abcdef.part", "0123456789");
  folder.write("mine.part", "x");
  const HeapFiles files({.directory = folder.path(), .max_bytes = 10});
  auto being_written = files.create("shop", 1, 0);
  ASSERT_TRUE(being_written.ok()) << being_written.status();
  ASSERT_TRUE(being_written->write("01234").ok());
  files.remove_left_parts();
  EXPECT_EQ("", taken_by(files, "56789", 1)) << "what is left of 10 bytes";
  EXPECT_TRUE(being_written->finish().ok()) << "it was not taken for one that is left";
  EXPECT_THAT(folder.names(),
              ElementsAre("auto-shop-1-19700101T000000Z.heap",
                          "auto-shop_server-42-19700101T000001Z.heap", "mine.part"));
}

std::string kept_of(const HeapFiles& files, const std::string& program, int pid,
                    const std::string& bytes, std::time_t now) {
  auto file = files.create(program, pid, now);
  if (!file.ok()) return std::string(file.status().message());
  absl::Status status = file->write(bytes);
  if (status.ok()) status = file->finish();
  return std::string(status.message());
}

TEST(HeapFiles, AProgramDrivesOutItsOwn) {
  const TempDir folder;
  const HeapFiles files({.directory = folder.path(), .keep = 3});
  EXPECT_EQ("", kept_of(files, "roots", 1, "x", 0));
  for (int i = 1; i <= 20; ++i) EXPECT_EQ("", kept_of(files, "flood-2", 100 + i, "x", i));
  EXPECT_THAT(folder.names(), ElementsAre("auto-flood-2-119-19700101T000019Z.heap",
                                          "auto-flood-2-120-19700101T000020Z.heap",
                                          "auto-roots-1-19700101T000000Z.heap"));
}

TEST(HeapFiles, TheProgramWithMostBytesGivesWayToOthers) {
  const TempDir folder;
  const HeapFiles files({.directory = folder.path(), .max_bytes = 100});
  for (int i = 0; i < 4; ++i) EXPECT_EQ("", kept_of(files, "hog", 7, std::string(25, 'h'), i));
  EXPECT_EQ("", kept_of(files, "small", 8, std::string(40, 's'), 5));
  EXPECT_EQ(3u, folder.names().size()) << "two of the other's are gone";
  EXPECT_THAT(kept_of(files, "hog", 7, std::string(40, 'h'), 6),
              HasSubstr("fill --snapshot.max-bytes"))
      << "it does not take from who has less";
  EXPECT_EQ(3u, folder.names().size());
}

TEST(HeapFiles, MakeTheirDirectoryIfItsParentIsThere) {
  const HeapFiles files({.directory = "/nowhere/at/all"});
  EXPECT_THAT(std::string(files.make_directory().message()),
              HasSubstr("with --snapshot.directory"));
  const TempDir folder;
  const std::string made = folder.path() + "/made";
  EXPECT_TRUE(HeapFiles({.directory = made}).make_directory().ok());
  struct stat status {};
  ASSERT_EQ(0, ::stat(made.c_str(), &status));
  EXPECT_EQ(0700u, status.st_mode & 0777u) << "for its owner alone";
}

std::vector<std::string> listed(const HeapFiles& files) {
  std::vector<std::string> names;
  for (const KeptHeap& kept : files.list()) names.push_back(kept.name);
  return names;
}

TEST(HeapFiles, AreListedLatestFirst) {
  const TempDir folder;
  const HeapFiles files({.directory = folder.path()});
  EXPECT_EQ("", taken_by(files, some_heap_file(7'000), 7));
  EXPECT_EQ("", taken_by(files, some_heap_file(9'000), 9));
  EXPECT_EQ("", taken_by(files, some_heap_file(8'000), 8));
  folder.write("mine.heap", some_heap_file(1));
  folder.write("auto-x-1-t.heap", "no snapshot");
  folder.write("auto-x-2-t.heap.abc.part", some_heap_file(2));
  std::filesystem::create_symlink(folder.path() + "/mine.heap", folder.path() + "/auto-link.heap");
  EXPECT_THAT(listed(files), ElementsAre("auto-shop_server-42-19700101T000009Z.heap",
                                         "auto-shop_server-42-19700101T000008Z.heap",
                                         "auto-shop_server-42-19700101T000007Z.heap"));
  const KeptHeap latest = files.list()[0];
  EXPECT_EQ(4242u, latest.info.pid);
  EXPECT_EQ(9'000, latest.info.unix_ns);
  EXPECT_EQ(some_heap_file(9'000).size(), latest.file_bytes);
}

TEST(HeapFiles, OnlyWhatIsKeptIsFound) {
  const TempDir folder;
  const TempDir other;
  const HeapFiles files({.directory = folder.path()});
  EXPECT_EQ("", taken_by(files, "x", 7));
  folder.write("mine.heap", "x");
  const std::string elsewhere = other.write("auto-x.heap", "x");
  const std::string name = "auto-shop_server-42-19700101T000007Z.heap";
  EXPECT_EQ(folder.path() + "/" + name, *files.path_of(name));
  for (const std::string& wrong :
       {std::string("mine.heap"), elsewhere, "./" + name, folder.path() + "/" + name,
        "../" + std::filesystem::path(other.path()).filename().string() + "/auto-x.heap",
        std::string()}) {
    EXPECT_EQ(absl::StatusCode::kNotFound, files.path_of(wrong).status().code()) << wrong;
  }
}

TEST(HeapFiles, WithoutADirectoryNoneAreKept) {
  const HeapFiles files(HeapFilesOptions{});
  EXPECT_THAT(listed(files), IsEmpty());
  for (const absl::Status& refused :
       {files.path_of("x").status(), files.create("x", 1, 0).status()}) {
    EXPECT_EQ(absl::StatusCode::kFailedPrecondition, refused.code());
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--snapshot.directory"));
  }
}

}  // namespace
}  // namespace memprofd
