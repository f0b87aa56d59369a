// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/source_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/kit/marshal_bytes.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

// A program in a folder of who runs it, who is not the user of this process.
class FilesOfOthers : public ::testing::Test {
 protected:
  static constexpr uid_t kOwner = 4711, kOther = 4712;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "files of others are made by root only";
    dir_.write("shop/shop", "the program");
    give(dir_.path(), 0, 0755);
    give(dir_.path("shop"), kOwner, 0700);
    give(dir_.path("shop/shop"), kOwner, 0700);
  }
  static void give(const std::string& path, uid_t owner, mode_t mode) {
    EXPECT_EQ(0, ::lchown(path.c_str(), owner, owner));
    EXPECT_EQ(0, ::chmod(path.c_str(), mode));
  }
  // An interface of that unit.
  std::string write(const std::string& name, uid_t owner, mode_t mode = 0600) const {
    const std::string path = dir_.write(name, interface_file("Cache", marshal::list({})));
    give(path, owner, mode);
    return path;
  }
  bool is_found(const std::string& unit, const std::string& place = "",
                SourceRights rights = {.user = kOwner}) const {
    SourceFiles files(dir_.path("shop/shop"), "5.3.0", rights);
    EXPECT_TRUE(place.empty() || files.add(place).ok());
    return files.find(unit).interface != nullptr;
  }

  const TempDir dir_;
};

TEST_F(FilesOfOthers, AreReadWhereTheProgramsUserCouldReadThem) {
  write("shop/mine.cmi", kOwner);
  write("shop/everybodys.cmi", kOther, 0644);
  EXPECT_TRUE(is_found("Mine"));
  EXPECT_TRUE(is_found("Everybodys"));
  write("shop/secret.cmi", kOther);
  write("shop/roots.cmi", 0);
  EXPECT_FALSE(is_found("Secret"));
  EXPECT_FALSE(is_found("Roots"));
  EXPECT_TRUE(is_found("Secret", "", {})) << "who has no more rights than its own may";
  EXPECT_FALSE(is_found("Everybodys", "", {.user = SourceRights::kNobody}))
      << "the folder is closed";
  give(dir_.path("shop"), kOwner, 0755);
  EXPECT_TRUE(is_found("Everybodys", "", {.user = SourceRights::kNobody}));
  EXPECT_FALSE(is_found("Mine", "", {.user = SourceRights::kNobody}));
}

TEST_F(FilesOfOthers, NoLinkLeadsToWhatTheUserCouldNotRead) {
  const std::string secret = write("other/secret.cmi", kOther, 0644);
  give(dir_.path("other"), kOther, 0700);
  dir_.link("shop/secret.cmi", secret);
  EXPECT_TRUE(is_found("Secret", "", {}));
  EXPECT_FALSE(is_found("Secret"));
  EXPECT_FALSE(is_found("Secret", dir_.path("shop")));
}

TEST_F(FilesOfOthers, ThatAreGivenAreReadWhosesoeverTheyAre) {
  write("other/deep/secret.cmi", kOther);
  give(dir_.path("other"), kOther, 0700);
  dir_.link("place", dir_.path("other"));
  EXPECT_FALSE(is_found("Secret"));
  EXPECT_TRUE(is_found("Secret", dir_.path("other")));
  EXPECT_TRUE(is_found("Secret", dir_.path("place"))) << "the giver's own link";
}

TEST_F(FilesOfOthers, ABoundOfMemoryEndsTheReading) {
  write("shop/a.cmi", kOwner);
  write("shop/b.cmi", kOwner);
  SourceFiles files(dir_.path("shop/shop"), "5.3.0", {.user = kOwner, .most_memory = 0});
  EXPECT_NE(nullptr, files.find("A").interface);
  EXPECT_EQ(nullptr, files.find("B").interface);
}

TEST_F(FilesOfOthers, APlaceThatIsNotThereIsSaid) {
  SourceFiles files("", "5.3.0", {.user = kOwner});
  EXPECT_TRUE(absl::IsNotFound(files.add(dir_.path("none"))));
  EXPECT_FALSE(is_found("Mine"));
}

}  // namespace
}  // namespace memprofd
