// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/guarded_types.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "tests/kit/image_builder.h"
#include "tests/kit/marshal_bytes.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

TEST(PatientFinder, HandsOnWhatIsAsked) {
  const CompilerFile file;
  std::vector<std::string> asked;
  const FindUnit find = [&](const std::string& unit) {
    asked.push_back(unit);
    return SourceUnit{.interface = &file};
  };
  PatientFinder finder(find, std::chrono::minutes(1));
  EXPECT_EQ(&file, finder.find("Cache").interface);
  EXPECT_EQ(&file, finder.find("Queue").interface);
  EXPECT_EQ((std::vector<std::string>{"Cache", "Queue"}), asked);
  EXPECT_FALSE(finder.has_given_up());
}

TEST(PatientFinder, GivesUpOnFilesThatNeverAnswer) {
  const auto hang = std::make_shared<std::latch>(1);
  const auto asked = std::make_shared<std::atomic<int>>(0);
  const FindUnit find = [hang, asked](const std::string&) {
    ++*asked;
    hang->wait();
    return SourceUnit{};
  };
  PatientFinder finder(find, milliseconds(10));
  EXPECT_EQ(nullptr, finder.find("Cache").interface);
  EXPECT_TRUE(finder.has_given_up());
  EXPECT_EQ(nullptr, finder.find("Queue").interface);
  EXPECT_EQ(1, asked->load()) << "whoever hangs is not asked again";
  hang->count_down();
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

// With val name : string.
std::string cache_interface() {
  using namespace marshal;
  const std::string type = block(
      0, {block(3, {block(0, {block(3, {text("string"), integer(1)})}), integer(0), integer(0)}),
          integer(0), integer(0), integer(0)});
  return interface_file("Cache", list({block(0, {block(0, {text("name"), integer(6)}),
                                                 block(0, {type, integer(0)}), integer(0)})}));
}

TEST(GuardedTypes, AreOfPlacesThatAreGiven) {
  const TempDir dir;
  dir.write("deep/cache.cmi", cache_interface());
  HeapImage image = image_of("/none/shop");
  GuardedTypes().give(image, std::nullopt);
  EXPECT_EQ(0u, image.types_found.modules);
  GuardedTypes({dir.path()}).give(image, std::nullopt);
  EXPECT_EQ(1u, image.types_found.modules);
  EXPECT_EQ("string", image.types[image.type(0)].name);
  EXPECT_FALSE(image.types_found.out_of_time);
}

TEST(GuardedTypes, APlaceThatIsNotThereIsRefused) {
  const TempDir dir;
  EXPECT_TRUE(GuardedTypes({dir.path()}).check().ok());
  const absl::Status status = GuardedTypes({dir.path(), dir.path("none")}).check();
  EXPECT_TRUE(absl::IsNotFound(status));
}

// A copy of sleep that runs, and ends with this.
class Sleeper {
 public:
  explicit Sleeper(std::string path) {
    std::filesystem::copy_file("/bin/sleep", path);
    char seconds[] = "600";
    char* const arguments[] = {path.data(), seconds, nullptr};
    EXPECT_EQ(0, ::posix_spawn(&pid_, path.c_str(), nullptr, nullptr, arguments, environ));
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }

 private:
  pid_t pid_ = 0;
};

TEST(GuardedTypes, AreThoseBesideTheProgram) {
  const TempDir dir;
  dir.write("cache.cmi", cache_interface());
  const Sleeper program(dir.path("shop"));
  HeapImage image = image_of(dir.path("shop"));
  GuardedTypes().give(image, program.pid());
  EXPECT_EQ(1u, image.types_found.modules);
}

TEST(GuardedTypes, AreNotThoseBesideAnotherFileOfTheProgramsPath) {
  const TempDir dir;
  dir.write("cache.cmi", cache_interface());
  dir.write("shop", "a program outside of the container that the running one is in");
  HeapImage image = image_of(dir.path("shop"));
  GuardedTypes().give(image, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(0u, image.types_found.modules);
  GuardedTypes().give(image, std::nullopt);
  EXPECT_EQ(1u, image.types_found.modules) << "a program that has ended";
}

}  // namespace
}  // namespace memprofd
