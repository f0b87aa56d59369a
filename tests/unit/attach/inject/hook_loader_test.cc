// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/hook_loader.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using Hook = void (*)();
extern "C" std::atomic<Hook> caml_minor_gc_end_hook;
std::atomic<Hook> caml_minor_gc_end_hook;

namespace memprofd {
namespace {

std::atomic<int> loads, calls_before;
std::string loaded;

void* fake_dlopen(const char* path, int flags) {
  EXPECT_EQ(flags, 2);
  loaded = path;
  ++loads;
  return nullptr;
}
void before() { ++calls_before; }

std::uint64_t address_of(const void* place) { return std::bit_cast<std::uint64_t>(place); }

// The code as a process would have it, in this one.
class HookCodeTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4096;

  HookCodeTest()
      : page_(static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    loads = calls_before = 0;
    loaded.clear();
  }
  ~HookCodeTest() override { ::munmap(page_, kBytes); }

  void put(Hook what_was_there) {
    before_ = what_was_there;
    const auto code = hook_code({.hook = address_of(&hook_),
                                 .before = address_of(std::bit_cast<void*>(what_was_there)),
                                 .dlopen = address_of(std::bit_cast<void*>(&fake_dlopen)),
                                 .path = "/usr/lib/agent.so"});
    ASSERT_LE(code.size(), kBytes);
    std::memcpy(page_, code.data(), code.size());
    hook_ = code_in_page();
  }
  Hook code_in_page() const { return std::bit_cast<Hook>(page_ + kHookCodeHead); }

  std::byte* const page_;
  std::atomic<Hook> hook_{nullptr};
  Hook before_ = nullptr;
};

TEST_F(HookCodeTest, TheFirstCallLoadsAndLeavesTheHookAsItWas) {
  put(before);
  hook_.load()();
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(loaded, "/usr/lib/agent.so");
  EXPECT_EQ(calls_before, 1);
  EXPECT_EQ(hook_.load(), &before);
  // A thread that has read the hook before.
  code_in_page()();
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(calls_before, 2);
}

TEST_F(HookCodeTest, NothingWasThere) {
  put(nullptr);
  hook_.load()();
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(hook_.load(), nullptr);
}

TEST_F(HookCodeTest, OneOfManyThreadsLoads) {
  for (int round = 0; round < 100; ++round) {
    put(before);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([this] { code_in_page()(); });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(loads, round + 1);
  }
  EXPECT_EQ(calls_before, 400);
}

// A stack of 96 KiB with a page behind it that is not there: of which almost all is used, or
// little.
TEST_F(HookCodeTest, AShortStackIsLeftAlone) {
  for (const bool is_short : {true, false}) {
    put(before);
    loads = 0;
    constexpr std::size_t kGuard = 4096;
    const std::size_t bytes = is_short ? 32 << 10 : 256 << 10;
    auto* stack = static_cast<std::byte*>(::mmap(nullptr, bytes + kGuard, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(::mprotect(stack, kGuard, PROT_NONE), 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ASSERT_EQ(pthread_attr_setstack(&attributes, stack + kGuard, bytes), 0);
    pthread_t thread;
    const auto run = [](void* code) -> void* {
      std::bit_cast<Hook>(code)();
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, run, page_ + kHookCodeHead), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    ::munmap(stack, bytes + kGuard);
    EXPECT_EQ(loads, is_short ? 0 : 1);
    EXPECT_EQ(hook_.load(), is_short ? code_in_page() : &before);
  }
}

// This process as the target: the code goes behind the C library's.
class HookLoaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    target_.pid = ::getpid();
    auto memory = TargetMemory::open(target_.pid);
    ASSERT_TRUE(memory.ok()) << memory.status();
    target_.memory = *std::move(memory);
    auto program = ElfFile::open("/proc/self/exe", "this test", target_.budget);
    ASSERT_TRUE(program.ok()) << program.status();
    target_.program = *std::move(program);
    const auto hook = target_.program->find_symbol("caml_minor_gc_end_hook");
    ASSERT_TRUE(hook.has_value());
    target_.load_bias = address_of(&caml_minor_gc_end_hook) - hook->address;
    caml_minor_gc_end_hook = before;
  }
  HookLoader start() {
    return HookLoader::start(target_, address_of(std::bit_cast<void*>(&dlopen_of_test)), "/agent")
        .value();
  }

  // As the dynamic linker does, while a thread of the program is in the code.
  static void* dlopen_of_test(const char*, int) {
    while_it_loads = loader->progress().value();
    if (is_loaded) caml_minor_gc_end_hook = [] {};  // the agent's constructor
    return nullptr;
  }
  static inline std::optional<HookLoader> loader;
  static inline HookLoader::Progress while_it_loads;
  static inline bool is_loaded = true;

  Target target_;
};

TEST_F(HookLoaderTest, LoadedOnceTheConstructorHasRun) {
  is_loaded = true;
  loader.emplace(start());
  EXPECT_EQ(loader->progress().value(), HookLoader::Progress::kWaiting);
  caml_minor_gc_end_hook.load()();
  EXPECT_EQ(while_it_loads, HookLoader::Progress::kLoading) << "its data is not the agent's yet";
  EXPECT_EQ(loader->progress().value(), HookLoader::Progress::kLoaded);
}

// Another run was killed after it had set the hook.
TEST_F(HookLoaderTest, TheNextRunKnowsWhatTheHookWas) {
  is_loaded = false;
  loader.emplace(start());
  loader.emplace(start());
  EXPECT_EQ(loader->progress().value(), HookLoader::Progress::kWaiting);
  caml_minor_gc_end_hook.load()();
  EXPECT_EQ(while_it_loads, HookLoader::Progress::kLoading);
  EXPECT_EQ(loader->progress().value(), HookLoader::Progress::kLoading) << "refused";
}

TEST(HookCodeSize, OnlyItsOwnIsRecognized) {
  auto code = hook_code({.hook = 1, .before = 2, .dlopen = 3, .path = "a"});
  const std::size_t size = code.size();
  EXPECT_EQ(hook_code_size(code), size);
  code.resize(4096);
  EXPECT_EQ(hook_code_size(code), size);
  EXPECT_EQ(hook_code_size(std::span(code).first(size - 1)), 0u) << "longer than there is room";
  EXPECT_EQ(hook_code_size(std::span(code).first(8)), 0u);
  EXPECT_EQ(hook_code_size(std::vector<std::byte>(4096)), 0u);
  const std::uint64_t none = 0;
  std::memcpy(code.data() + 8, &none, sizeof none);
  EXPECT_EQ(hook_code_size(code), 0u) << "would not end";
}

}  // namespace
}  // namespace memprofd
