// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/plugins.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>

#include "daemon/discover/target_memory.h"
#include "daemon/util/fd.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

// Output of ocamlopt -shared for a module with one call site. The separator in symbols is "__" in
// OCaml 4 and "." in OCaml 5.
std::string plugin_source(const std::string& separator) {
  const std::string table = "camlPlug" + separator + "frametable";
  return ".text\ncamlPlug" + separator + "f:\nret\n.Lreturn:\nret\n.data\n.globl \"" + table +
         "\"\n\"" + table + "\":\n.quad 1\n.quad .Lreturn\n.word 16\n.word 0\n.balign 8\n" +
         ".section .note.GNU-stack,\"\",%progbits\n";
}

std::string make_plugin(const TempDir& dir, const std::string& name, const std::string& source) {
  const std::string from = dir.write(name + ".s", source);
  const std::string to = dir.path(name + ".so");
  const std::string command = "gcc -shared -nostdlib '" + from + "' -o '" + to + "'";
  return std::system(command.c_str()) == 0 ? to : "";
}

// Loaded into this process while it lives.
class Loaded {
 public:
  explicit Loaded(const std::string& path) : handle_(::dlopen(path.c_str(), RTLD_NOW)) {}
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  std::uint64_t address(const char* symbol) const {
    return reinterpret_cast<std::uint64_t>(::dlsym(handle_, symbol));
  }

 private:
  void* handle_;
};

// The memory of this process before the dynamic linker relocated one word.
class Unrelocated : public MemoryReader {
 public:
  Unrelocated(std::uint64_t address, std::uint64_t value) : address_(address), value_(value) {}
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    const absl::Status status = memory_->read(address, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint64_t at = address + i - address_;
      if (at < sizeof value_) out[i] = static_cast<std::byte>(value_ >> (8 * at));
    }
    return status;
  }

 private:
  std::unique_ptr<TargetMemory> memory_ = TargetMemory::open(::getpid()).value();
  std::uint64_t address_;
  std::uint64_t value_;
};

class PluginFinderTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<OcamlCode> find_new() { return finder_.find_new(*memory_->maps(), *memory_); }
  std::string symbol() const { return std::string("camlPlug") + GetParam() + "frametable"; }

  TempDir dir_;
  std::string file_ = make_plugin(dir_, "plugin", plugin_source(GetParam()));
  std::unique_ptr<TargetMemory> memory_ = TargetMemory::open(::getpid()).value();
  PluginFinder finder_{::getpid(), "/proc/self/exe"};
};

TEST_P(PluginFinderTest, IsFoundOnceWithItsFrames) {
  EXPECT_TRUE(find_new().empty());
  const Loaded plugin(file_);
  const std::uint64_t table = plugin.address(symbol().c_str());
  const auto found = find_new();
  ASSERT_EQ(found.size(), 1u);
  const auto& frames = found.front().frames.descriptors();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].frame_size, 16u);
  EXPECT_EQ(frames[0].return_address, *reinterpret_cast<const std::uint64_t*>(table + 8));
  EXPECT_LT(found.front().load_bias, table);
  EXPECT_TRUE(find_new().empty());
}

TEST_P(PluginFinderTest, EachFileOfItsOwn) {
  const Loaded first(file_);
  EXPECT_EQ(find_new().size(), 1u);
  const Loaded second(make_plugin(dir_, "second", plugin_source(GetParam())));
  EXPECT_EQ(find_new().size(), 1u);
}

// Half loaded: its return addresses are still those of the file.
TEST_P(PluginFinderTest, IsLeftUntilItIsRelocated) {
  const Loaded plugin(file_);
  const std::uint64_t entry = plugin.address(symbol().c_str()) + 8;
  EXPECT_TRUE(finder_.find_new(*memory_->maps(), Unrelocated(entry, 0x1001)).empty());
  EXPECT_EQ(find_new().size(), 1u);
}

TEST_P(PluginFinderTest, TheProgramItselfIsNotAPlugin) {
  const Loaded plugin(file_);
  ASSERT_NE(plugin.address(symbol().c_str()), 0u);
  PluginFinder finder(::getpid(), file_);
  EXPECT_TRUE(finder.find_new(*memory_->maps(), *memory_).empty());
}

TEST_P(PluginFinderTest, ALibraryWithoutFramesIsNotAPlugin) {
  std::string source = plugin_source(GetParam());
  source.replace(source.find(".quad 1\n"), 8, ".quad 0\n");
  const Loaded library(make_plugin(dir_, "library", source));
  ASSERT_NE(library.address(symbol().c_str()), 0u);
  EXPECT_TRUE(find_new().empty());
}

// Mapped as code once more, as a program may do thousands of times.
class MappedAgain {
 public:
  explicit MappedAgain(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    at_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  }
  MappedAgain(const MappedAgain&) = delete;
  MappedAgain& operator=(const MappedAgain&) = delete;
  ~MappedAgain() { ::munmap(at_, kBytes); }

 private:
  static constexpr std::size_t kBytes = 4096;
  void* at_;
};

TEST_P(PluginFinderTest, AFileIsKnownOnceHoweverOftenItIsMapped) {
  const Loaded plugin(file_);
  EXPECT_EQ(find_new().size(), 1u);
  std::deque<MappedAgain> more;
  for (std::size_t i = 0; i < PluginFinder::kMaxFiles; ++i) more.emplace_back(file_);
  EXPECT_TRUE(find_new().empty());
  const Loaded second(make_plugin(dir_, "second", plugin_source(GetParam())));
  EXPECT_EQ(find_new().size(), 1u) << "there is room for further files";
}

TEST_P(PluginFinderTest, AnUnmappedFileIsForgottenAndFoundWhenItIsLoadedAgain) {
  for (int i = 0; i < 3; ++i) {
    {
      const Loaded plugin(file_);
      EXPECT_EQ(find_new().size(), 1u);
    }
    EXPECT_TRUE(find_new().empty());
  }
}

TEST_P(PluginFinderTest, FramesBeyondTheKernelsTableAreOmitted) {
  finder_.set_room(0);
  const Loaded plugin(file_);
  EXPECT_TRUE(find_new().empty());
  EXPECT_EQ(finder_.left_out(), 1u);
  EXPECT_TRUE(find_new().empty());
  EXPECT_EQ(finder_.left_out(), 1u);
}

TEST_P(PluginFinderTest, MalformedFilesAreReportedOncePerReason) {
  std::string source = plugin_source(GetParam());
  source.replace(source.find(".quad 1\n"), 8, ".quad 3\n");
  const Loaded first(make_plugin(dir_, "first", source));
  const Loaded second(make_plugin(dir_, "second", source));
  EXPECT_EQ(find_new().size(), 2u);
  ASSERT_EQ(finder_.problems().size(), 1u);
  EXPECT_EQ(
      finder_.problems()[0].substr(finder_.problems()[0].find(':')),
      ": 2 of its frame descriptors are malformed or unreadable; callstacks end at their code");
  EXPECT_TRUE(find_new().empty());
  EXPECT_EQ(finder_.problems().size(), 1u);
}

TEST_P(PluginFinderTest, ACompletelyMalformedFileIsReported) {
  std::string source = plugin_source(GetParam());
  source.replace(source.find(".quad .Lreturn\n"), 15, ".quad 1\n");
  const Loaded plugin(make_plugin(dir_, "malformed", source));
  EXPECT_TRUE(find_new().empty());
  ASSERT_EQ(finder_.problems().size(), 1u);
  EXPECT_NE(finder_.problems()[0].find("1 of its frame descriptors"), std::string::npos);
}

TEST_P(PluginFinderTest, ARefusalByTheBudgetIsReported) {
  const auto budget = std::make_shared<ByteBudget>(4096);
  PluginFinder finder(::getpid(), "/proc/self/exe", ProcFs(), budget);
  const Loaded plugin(file_);
  const auto maps = memory_->maps();
  EXPECT_TRUE(finder.find_new(*maps, *memory_).empty());
  EXPECT_GT(budget->refused(), 0u);
  ASSERT_FALSE(finder.problems().empty());
  EXPECT_TRUE(std::any_of(finder.problems().begin(), finder.problems().end(), [](const auto& line) {
    return line.find("/plugin.so: 1 of its frame descriptors do not fit into the 256 MiB") !=
           std::string::npos;
  }));
}

TEST_P(PluginFinderTest, WithoutDescriptorsThisIsReportedAndTheFileRetried) {
  const Loaded plugin(file_);
  const auto maps = memory_->maps();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_TRUE(finder_.find_new(*maps, *memory_).empty());
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_EQ(finder_.problems().size(), 1u);
  EXPECT_NE(finder_.problems()[0].find("LimitNOFILE="), std::string::npos) << finder_.problems()[0];
  EXPECT_EQ(finder_.find_new(*maps, *memory_).size(), 1u);
}

TEST_P(PluginFinderTest, NothingIsInspectedAfterTheStop) {
  const Loaded plugin(file_);
  std::stop_source stop;
  stop.request_stop();
  const auto maps = memory_->maps();
  EXPECT_TRUE(finder_.find_new(*maps, *memory_, stop.get_token()).empty());
  EXPECT_EQ(finder_.find_new(*maps, *memory_).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Separators, PluginFinderTest, ::testing::Values("__", "."),
                         [](const auto& which) {
                           return std::string(which.param) == "." ? "OCaml5" : "OCaml4";
                         });

}  // namespace
}  // namespace memprofd
