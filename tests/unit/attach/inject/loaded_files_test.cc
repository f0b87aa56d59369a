// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/loaded_files.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include "daemon/attach/inject/libc_functions.h"
#include "daemon/discover/target_memory.h"
#include "tests/kit/asked_memory.h"
#include "tests/kit/fake_memory.h"

namespace memprofd {
namespace {

struct Node {
  std::uint64_t bias, name, dynamic, next;
};

// A dynamic linker's list of these files, in that order.
class Files {
 public:
  std::uint64_t add(std::uint64_t bias, const std::string& name) {
    const std::uint64_t text = memory_.put_string(name);
    memory_.align(8);
    const std::uint64_t at = memory_.put(Node{bias, text, 0, 0});
    if (last_ != 0) memory_.poke(last_ + offsetof(Node, next), at);
    if (first_ == 0) first_ = at;
    return last_ = at;
  }
  std::uint64_t list() {
    const std::uint64_t at = memory_.put(std::uint64_t{1});
    memory_.put(first_);
    return at;
  }
  std::uint64_t last() const { return last_; }
  FakeMemory& memory() { return memory_; }

 private:
  FakeMemory memory_{0x10000};
  std::uint64_t first_ = 0, last_ = 0;
};

std::optional<std::uint64_t> bias_after(const MemoryReader& memory, std::uint64_t entry,
                                        const std::string& name) {
  const auto at = load_bias_after(memory, entry, name, [](std::uint64_t, MemoryQuestion&) {});
  return at ? std::optional(at->bias) : std::nullopt;
}

TEST(LoadedFiles, TheFirstThatWasLoadedSinceUnderTheName) {
  Files files;
  const std::uint64_t before = files.add(0x500, "/lib/agent.so");
  files.add(0x3000, "/lib/agent.so.1");
  files.add(0x1000, "/lib/agent.so");
  files.add(0x2000, "/lib/agent.so");
  EXPECT_EQ(bias_after(files.memory(), before, "/lib/agent.so"), 0x1000u);
  EXPECT_EQ(bias_after(files.memory(), before, "/lib/agent"), std::nullopt);
}

// The program stands still: the entry before, each one since, and with its name all else.
TEST(LoadedFiles, WhatElseIsAskedTakesNoMoreQuestions) {
  Files files;
  const std::uint64_t before = files.add(0x500, "libc");
  files.add(0x1000, "a library of it");
  files.add(0x2000, "agent");
  const std::uint64_t word = files.memory().put(std::uint64_t{42});
  const AskedMemory memory(files.memory());
  std::uint64_t value = 0, nowhere = 0;
  const auto at =
      load_bias_after(memory, before, "agent", [&](std::uint64_t bias, MemoryQuestion& question) {
        value = 0;
        question.about(bias == 0x2000 ? word : 0xdead0000, value).about(0xdead0000, nowhere);
      });
  ASSERT_TRUE(at);
  EXPECT_EQ(at->bias, 0x2000u);
  EXPECT_EQ(at->answers, 1u) << "the first of the two";
  EXPECT_EQ(value, 42u);
  EXPECT_EQ(memory.times, 5);
}

TEST(LoadedFiles, TheLastEntry) {
  Files files;
  files.add(0x1000, "a");
  EXPECT_EQ(last_loaded(files.memory(), files.list()), files.last());
  for (int i = 0; i < 1000; ++i) files.add(0x2000, "b");
  EXPECT_EQ(last_loaded(files.memory(), files.list()), files.last());
  EXPECT_EQ(bias_after(files.memory(), files.last(), "b"), std::nullopt);
}

// The process is stopped for few reads, however many files there are.
TEST(LoadedFiles, InTheirOrder) {
  Files files;
  files.add(0x7000, "");
  files.add(0x3000, "b");
  files.add(0x5000, "a");
  EXPECT_EQ(biases_in_order(files.memory(), files.list()),
            (std::vector<std::uint64_t>{0x7000, 0x3000, 0x5000}));
  EXPECT_EQ(biases_in_order(files.memory(), 0), std::nullopt);
}

TEST(LoadedFiles, OnlyTheNextAreLookedAt) {
  Files files;
  const std::uint64_t before = files.add(0x1000, "old");
  for (int i = 1; i < kLoadedLast; ++i) files.add(0x2000, "other");
  files.add(0x3000, "new");
  EXPECT_EQ(bias_after(files.memory(), before, "new"), 0x3000u);
  files.add(0x4000, "newer");
  EXPECT_EQ(bias_after(files.memory(), before, "newer"), std::nullopt);
}

TEST(LoadedFiles, AListWithoutAnEnd) {
  Files files;
  const std::uint64_t first = files.add(0x1000, "a");
  const std::uint64_t last = files.add(0x2000, "b");
  files.memory().poke(last + offsetof(Node, next), first);
  EXPECT_EQ(last_loaded(files.memory(), files.list()), std::nullopt);
  EXPECT_EQ(bias_after(files.memory(), first, "c"), std::nullopt);
  EXPECT_EQ(bias_after(files.memory(), first, "b"), 0x2000u);
}

TEST(LoadedFiles, AListThatLeadsNowhere) {
  Files files;
  const std::uint64_t at = files.add(0x1000, "a");
  files.memory().poke(at + offsetof(Node, next), std::uint64_t{0xdead0000});
  EXPECT_EQ(last_loaded(files.memory(), files.list()), std::nullopt);
  EXPECT_EQ(last_loaded(files.memory(), 0xdead0000), std::nullopt);
  EXPECT_EQ(bias_after(files.memory(), at, "a"), std::nullopt);
  EXPECT_EQ(bias_after(files.memory(), 0xdead0000, "a"), std::nullopt);
}

TEST(LoadedFiles, OfThisProcess) {
  const auto libc = find_libc_functions(::getpid(), ProcFs().maps(::getpid()).value());
  ASSERT_TRUE(libc.ok()) << libc.status();
  ASSERT_NE(libc->loaded_list, 0u);
  const auto memory = TargetMemory::open(::getpid());
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto* map = static_cast<const link_map*>(::dlopen(nullptr, RTLD_NOW));
  while (map->l_next != nullptr) map = map->l_next;
  EXPECT_EQ(last_loaded(**memory, libc->loaded_list), reinterpret_cast<std::uint64_t>(map));
  const auto before = reinterpret_cast<std::uint64_t>(map->l_prev);
  EXPECT_EQ(bias_after(**memory, before, map->l_name), map->l_addr);
}

}  // namespace
}  // namespace memprofd
