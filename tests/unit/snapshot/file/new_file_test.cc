// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/file/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

std::size_t files_in(const TempDir& folder) {
  const std::filesystem::directory_iterator begin(folder.path());
  return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

TEST(NewFile, ExistsOnceItIsComplete) {
  const TempDir folder;
  const std::string path = folder.write("a", "before");
  auto file = NewFile::create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->write("one").ok());
  EXPECT_TRUE(file->write("two").ok());
  EXPECT_EQ("before", read_file(path));
  EXPECT_TRUE(file->finish().ok());
  EXPECT_EQ("onetwo", read_file(path));
  EXPECT_EQ(1u, files_in(folder));
  struct stat status {};
  ASSERT_EQ(0, ::stat(path.c_str(), &status));
  EXPECT_EQ(0600u, status.st_mode & 0777);
}

TEST(NewFile, AnUnfinishedOneLeavesNothing) {
  const TempDir folder;
  {
    auto file = NewFile::create(folder.path("a"));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->write("one").ok());
    EXPECT_EQ(1u, files_in(folder));
  }
  EXPECT_EQ(0u, files_in(folder));
}

TEST(NewFile, FollowsNoLinkAndReplacesNoDevice) {
  const TempDir folder;
  folder.link("link", folder.path("elsewhere"));
  for (const std::string& path : {folder.path("link"), folder.path(), std::string("/dev/null")}) {
    const auto file = NewFile::create(path);
    EXPECT_EQ(absl::StatusCode::kInvalidArgument, file.status().code());
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("not a regular file"));
  }
  EXPECT_EQ(1u, files_in(folder));
  EXPECT_EQ(absl::StatusCode::kInvalidArgument,
            NewFile::create(folder.path("no/such/folder")).status().code());
}

TEST(NamelessFile, IsReadBackAndNowhereToBeFound) {
  const TempDir folder;
  ASSERT_EQ(0, ::setenv("TMPDIR", folder.path().c_str(), 1));
  const auto file = NamelessFile::create();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(0u, files_in(folder));
  EXPECT_TRUE(file->write("one").ok());
  EXPECT_TRUE(file->write("two").ok());
  EXPECT_EQ("onetwo", read_file(file->path()));
  struct stat status {};
  ASSERT_EQ(0, ::stat(file->path().c_str(), &status));
  EXPECT_EQ(0600u, status.st_mode & 0777);
  ASSERT_EQ(0, ::setenv("TMPDIR", folder.path("none").c_str(), 1));
  EXPECT_THAT(std::string(NamelessFile::create().status().message()), HasSubstr("none/memprofctl"));
  ::unsetenv("TMPDIR");
}

}  // namespace
}  // namespace memprofd
