// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/source_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/kit/marshal_bytes.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

// A program in a folder of the user who runs it, who is not the user of this process.
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

TEST_F(FilesOfOthers, GivenFilesAreReadWhoeverOwnsThem) {
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

TEST_F(FilesOfOthers, AMissingPlaceIsReported) {
  SourceFiles files("", "5.3.0", {.user = kOwner});
  EXPECT_TRUE(absl::IsNotFound(files.add(dir_.path("none"))));
  EXPECT_FALSE(is_found("Mine"));
}

const std::string kOurs(kDigestBytes, 'o'), kTheirs(kDigestBytes, 't');

// Files of two modules called Path in two folders, one of them the program's.
class FilesOfBuilds : public ::testing::Test {
 protected:
  FilesOfBuilds() {
    write("a/path.cmi", "Path", {import_of("Path", kTheirs)});
    write("b/path.cmi", "Path", {import_of("Path", kOurs)});
    write("a/only.cmi", "Only", {import_of("Only", kTheirs)});
  }
  void write(const std::string& name, const std::string& unit,
             std::initializer_list<std::string> imports) const {
    dir_.write(name,
               interface_file(unit, marshal::list({marshal::text(name)}), marshal::list(imports)));
  }
  SourceUnit find(const std::string& unit, BuildProof build) {
    files_ = std::make_unique<SourceFiles>("", "5.3.0", SourceRights{}, std::move(build));
    EXPECT_TRUE(files_->add(dir_.path()).ok());
    return files_->find(unit);
  }
  // The file that was taken.
  static std::string_view name_of(const SourceUnit& unit) {
    return unit.interface == nullptr ? "" : unit.interface->signature().field(0).text();
  }

  const TempDir dir_;
  std::unique_ptr<SourceFiles> files_;
};

TEST_F(FilesOfBuilds, TheProgramsOwnOneIsUsed) {
  const BuildProof build{.interfaces = {{"Path", kOurs}, {"Only", kOurs}}};
  const SourceUnit path = find("Path", build);
  EXPECT_EQ("b/path.cmi", name_of(path));
  EXPECT_FALSE(path.is_of_other_build || path.is_unverified);
  const SourceUnit only = find("Only", build);
  EXPECT_EQ("", name_of(only));
  EXPECT_TRUE(only.is_of_other_build);
  EXPECT_FALSE(find("None", build).is_of_other_build) << "there are no files";
}

TEST_F(FilesOfBuilds, WithoutDigestsTheBuildIsUnknown) {
  const SourceUnit path = find("Path", {});
  EXPECT_EQ("a/path.cmi", name_of(path));
  EXPECT_TRUE(path.is_unverified);
}

TEST_F(FilesOfBuilds, AUnitThatIsNoneOfTheProgramMayBeAPlugins) {
  const InterfaceDigests interfaces{{"Path", kOurs}};
  const SourceUnit alone = find("Only", {.interfaces = interfaces});
  EXPECT_EQ("", name_of(alone));
  EXPECT_TRUE(alone.is_of_other_build);
  const BuildProof with_plugins{.interfaces = interfaces, .has_plugins = true};
  EXPECT_TRUE(find("Only", with_plugins).is_unverified);
  EXPECT_EQ("b/path.cmi", name_of(find("Path", with_plugins)));
}

TEST_F(FilesOfBuilds, AFileThatKnowsAnotherInterfaceOfAUnitIsOfAnotherBuild) {
  write("b/shop.cmi", "Shop", {import_of("Shop", kOurs), import_of("Path", kTheirs)});
  EXPECT_TRUE(find("Shop", {.interfaces = {{"Shop", kOurs}, {"Path", kOurs}}}).is_of_other_build);
  EXPECT_EQ("b/shop.cmi", name_of(find("Shop", {.interfaces = {{"Shop", kOurs}}})));
}

// If the interface has a source, the .cmt has no digest but those of its imports.
TEST_F(FilesOfBuilds, AnImplementationHasADigestOfItsOwnOrOfWhatItImports) {
  using namespace marshal;
  const auto implementation = [](const std::string& imports, const std::string& own) {
    const std::string none = integer(0);
    return "Caml1999T035" +
           marshalled(block(0, {text("Shop"), none, none, none, none, none, text("/src"), list({}),
                                none, none, imports, own}));
  };
  const auto is_found = [&](const std::string& imports, const std::string& own) {
    dir_.write("shop.cmt", implementation(imports, own));
    return find("Shop", {.interfaces = {{"Shop", kOurs}}}).implementation != nullptr;
  };
  EXPECT_TRUE(is_found(list({import_of("Shop", kOurs)}), integer(0)));
  EXPECT_FALSE(is_found(list({import_of("Shop", kTheirs)}), integer(0)));
  EXPECT_TRUE(is_found(list({}), block(0, {text(kOurs)})));
  EXPECT_FALSE(is_found(list({}), block(0, {text(kTheirs)})));
  EXPECT_FALSE(is_found(list({}), integer(0))) << "nothing tells";
}

}  // namespace
}  // namespace memprofd
