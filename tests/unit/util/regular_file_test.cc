// SPDX-License-Identifier: Apache-2.0
#include "daemon/util/regular_file.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

class RegularFile : public testing::Test {
 protected:
  std::string file(const std::string& name) {
    std::ofstream(dir_.path(name)) << name;
    return dir_.path(name);
  }
  std::string fifo() {
    EXPECT_EQ(::mkfifo(dir_.path("fifo").c_str(), 0600), 0);
    return dir_.path("fifo");
  }
  static std::uint64_t inode_of(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_ino;
  }

  TempDir dir_;
};

// True if a process has opened a file since.
class OpenWatch {
 public:
  explicit OpenWatch(const std::string& path) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(::inotify_add_watch(fd_.get(), path.c_str(), IN_OPEN), 0);
  }
  bool opened() const {
    alignas(inotify_event) char events[512];
    return ::read(fd_.get(), events, sizeof events) > 0;
  }

 private:
  UniqueFd fd_;
};

TEST_F(RegularFile, IsOpened) {
  const std::string path = file("a");
  const OpenWatch watch(path);
  EXPECT_TRUE(open_regular_file(path, "a", inode_of(path)).ok());
  EXPECT_TRUE(watch.opened());
}

// Opening a device may have effects, and opening a FIFO is visible at its other end.
TEST_F(RegularFile, NothingElseIsOpenedToSeeWhatItIs) {
  const std::string path = fifo();
  const OpenWatch watch(path);
  const auto opened = open_regular_file(path, "plugin.so");
  EXPECT_EQ(opened.status().message(), "plugin.so is not a regular file");
  EXPECT_FALSE(watch.opened());
  ASSERT_EQ(::symlink(path.c_str(), dir_.path("link").c_str()), 0);
  EXPECT_FALSE(open_regular_file(dir_.path("link"), "plugin.so").ok());
  EXPECT_FALSE(watch.opened());
}

TEST_F(RegularFile, AnotherFileOfThatNameIsNotOpened) {
  const std::string path = file("a"), other = file("b");
  const OpenWatch watch(path);
  const auto opened = open_regular_file(path, "plugin.so", inode_of(other));
  EXPECT_EQ(opened.status().message(), "plugin.so is another file by now");
  EXPECT_FALSE(watch.opened());
}

TEST_F(RegularFile, IsOpenedAsAUserCould) {
  const std::string path = file("a");
  constexpr uid_t kAnother = 4711;
  EXPECT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  EXPECT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_TRUE(open_as_user(path, ::geteuid()).ok());
  EXPECT_EQ(open_as_user(path, kAnother).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(open_as_user(path, std::nullopt).ok()) << "nobody is asked for";
  EXPECT_EQ(::chmod(path.c_str(), 0604), 0);
  EXPECT_TRUE(open_as_user(path, kAnother).ok());
  EXPECT_TRUE(open_as_user(dir_.path(), kAnother).ok()) << "a folder";
  EXPECT_EQ(::chmod(dir_.path().c_str(), 0754), 0);
  EXPECT_EQ(open_as_user(path, kAnother).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(open_as_user(path, ::geteuid()).ok());
}

TEST_F(RegularFile, ALinkIsNotFollowedAnywhereOnTheWay) {
  dir_.write("deep/a", "a");
  dir_.link("link", dir_.path("deep/a"));
  dir_.link("folder", dir_.path("deep"));
  EXPECT_TRUE(open_as_user(dir_.path("deep/a"), std::nullopt).ok());
  EXPECT_FALSE(open_as_user(dir_.path("link"), std::nullopt).ok());
  EXPECT_FALSE(open_as_user(dir_.path("folder/a"), std::nullopt).ok());
  EXPECT_FALSE(open_as_user("a", std::nullopt).ok());
  EXPECT_EQ(open_as_user(dir_.path("none"), std::nullopt).status().code(),
            absl::StatusCode::kNotFound);
  const std::string path = fifo();
  const OpenWatch watch(path);
  EXPECT_FALSE(open_as_user(path, std::nullopt).ok());
  EXPECT_FALSE(watch.opened());
}

TEST_F(RegularFile, AMissingOneIsReported) {
  const auto opened = open_regular_file(dir_.path("none"), "plugin.so");
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace memprofd
