// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/guarded_types.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kit/image_builder.h"
#include "tests/kit/marshal_bytes.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

TEST(TimeLimitedFinder, HandsOnWhatIsAsked) {
  const CompilerFile file;
  std::vector<std::string> asked;
  const FindUnit find = [&](const std::string& unit) {
    asked.push_back(unit);
    return SourceUnit{.interface = &file};
  };
  TimeLimitedFinder finder(find, std::chrono::minutes(1));
  EXPECT_EQ(&file, finder.find("Cache").interface);
  EXPECT_EQ(&file, finder.find("Queue").interface);
  EXPECT_EQ((std::vector<std::string>{"Cache", "Queue"}), asked);
  EXPECT_FALSE(finder.has_given_up());
}

TEST(TimeLimitedFinder, GivesUpOnFilesThatNeverAnswer) {
  const auto hang = std::make_shared<std::latch>(1);
  const auto asked = std::make_shared<std::atomic<int>>(0);
  const FindUnit find = [hang, asked](const std::string&) {
    ++*asked;
    hang->wait();
    return SourceUnit{};
  };
  TimeLimitedFinder finder(find, milliseconds(10));
  EXPECT_EQ(nullptr, finder.find("Cache").interface);
  EXPECT_TRUE(finder.has_given_up());
  EXPECT_EQ(nullptr, finder.find("Queue").interface);
  EXPECT_EQ(1, asked->load()) << "whoever hangs is not asked again";
  hang->count_down();
}

// Runs in a child process that may start no thread; 0: all checks passed.
int find_without_threads() {
  const rlimit none{1, 1};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0 || ::setuid(4712) != 0) return 1;
  const FindUnit find = [](const std::string&) { return SourceUnit{}; };
  TimeLimitedFinder finder(find, std::chrono::minutes(1));
  for (int i = 0; i < 20; ++i) {
    if (finder.find("Cache").interface != nullptr || !finder.lacked_thread()) return 2;
  }
  return finder.has_given_up() ? 3 : 0;  // more failed than may ask at the same time
}

TEST(TimeLimitedFinder, WithoutAThreadNothingIsFoundAndNoPlaceIsLost) {
  if (::geteuid() != 0) GTEST_SKIP() << "another user is made by root only";
  EXPECT_EXIT(std::_Exit(find_without_threads()), ::testing::ExitedWithCode(0), "");
}

TEST(TimeLimitedFinder, AnExceptionFindsNothing) {
  const FindUnit find = [](const std::string&) -> SourceUnit { throw std::bad_alloc(); };
  TimeLimitedFinder finder(find, std::chrono::minutes(1));
  EXPECT_EQ(nullptr, finder.find("Cache").interface);
}

// One global of a module that has files.
HeapImage image_of(const std::string& program) {
  ImageBuilder builder;
  builder.global("Cache", 0, builder.string(2));
  HeapImage image = builder.build();
  image.info.program = program;
  image.info.ocaml_version = "5.3.0";
  return image;
}

// Interface with val name : string.
std::string cache_interface() {
  using namespace marshal;
  const std::string type = block(
      0, {block(3, {block(0, {block(3, {text("string"), integer(1)})}), integer(0), integer(0)}),
          integer(0), integer(0), integer(0)});
  return interface_file("Cache", list({block(0, {block(0, {text("name"), integer(6)}),
                                                 block(0, {type, integer(0)}), integer(0)})}));
}

TEST(GuardedTypes, ComeFromTheGivenPlaces) {
  const TempDir dir;
  dir.write("deep/cache.cmi", cache_interface());
  HeapImage image = image_of("/none/shop");
  GuardedTypes().give(image);
  EXPECT_EQ(0u, image.types_found.modules);
  GuardedTypes({dir.path()}).give(image);
  EXPECT_EQ(1u, image.types_found.modules);
  EXPECT_EQ("string", image.types[image.type(0)].name);
  EXPECT_FALSE(image.types_found.out_of_time);
}

TEST(GuardedTypes, AMissingPlaceIsRefused) {
  const TempDir dir;
  EXPECT_TRUE(GuardedTypes({dir.path()}).check().ok());
  const absl::Status status = GuardedTypes({dir.path(), dir.path("none")}).check();
  EXPECT_TRUE(absl::IsNotFound(status));
}

// A copy of sleep, with a file of its module beside it.
class BesideTheProgram : public ::testing::Test {
 protected:
  static constexpr uid_t kUser = 4711;

  BesideTheProgram() {
    std::filesystem::copy_file("/bin/sleep", path_);
    interface_ = dir_.write("cache.cmi", cache_interface());
    allow(dir_.path(), 0755);
    allow(interface_, 0644);
  }
  ~BesideTheProgram() override {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  static void allow(const std::string& path, mode_t mode) {
    EXPECT_EQ(0, ::chmod(path.c_str(), mode));
  }
  // The command ends in running the program.
  void run(std::string command) {
    char shell[] = "/bin/sh", option[] = "-c";
    char* const arguments[] = {shell, option, command.data(), nullptr};
    ASSERT_EQ(0, ::posix_spawn(&pid_, shell, nullptr, nullptr, arguments, environ));
    const std::string exe = absl::StrCat("/proc/", pid_, "/exe");
    std::error_code error;
    while (std::filesystem::read_symlink(exe, error) != path_ && !error) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_FALSE(error) << command;
  }
  bool is_typed() {
    HeapImage image = image_of(path_);
    image.info.pid = static_cast<std::uint32_t>(pid_);
    GuardedTypes().give(image);
    return image.types_found.modules == 1;
  }

  const TempDir dir_;
  const std::string path_ = dir_.path("shop");
  std::string interface_;
  pid_t pid_ = 0;
};

TEST_F(BesideTheProgram, FilesAreReadThatItsUserCouldRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "another user is made by root only";
  run("exec setpriv --reuid 4711 --clear-groups " + path_ + " 600");
  EXPECT_TRUE(is_typed());
  allow(interface_, 0600);
  EXPECT_FALSE(is_typed()) << "root's own";
  EXPECT_EQ(0, ::chown(interface_.c_str(), kUser, kUser));
  EXPECT_TRUE(is_typed());
}

TEST_F(BesideTheProgram, FilesAreNotReadOfAnotherContainer) {
  if (::geteuid() != 0) GTEST_SKIP() << "a mount namespace is made by root only";
  std::filesystem::copy_file("/bin/sleep", dir_.path("other"));
  run("exec unshare --mount sh -c 'mount --bind " + dir_.path("other") + " " + path_ + " && exec " +
      path_ + " 600'");
  EXPECT_FALSE(is_typed()) << "its path is another file's here";
}

TEST_F(BesideTheProgram, OfOneThatHasEndedFilesAreReadThatEverybodyCouldRead) {
  EXPECT_TRUE(is_typed());
  allow(interface_, 0600);
  EXPECT_FALSE(is_typed());
}

}  // namespace
}  // namespace memprofd
