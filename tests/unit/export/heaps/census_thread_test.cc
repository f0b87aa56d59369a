// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/census_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "tests/kit/heap_file.h"
#include "tests/kit/temp_dir.h"
#include "tests/unit/export/eventually.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

// Waits for a census of that snapshot of pid 4242.
void wait_for(const HeapAnalyser& heaps, std::int64_t unix_ns) {
  ASSERT_TRUE(testing::eventually([&] {
    return heaps.censuses()->of({.pid = 4242, .unix_ns = unix_ns}) != nullptr;
  })) << "no census of "
      << unix_ns;
}

// Stores a snapshot like memprofd does: complete from the beginning.
void keep(const TempDir& folder, const std::string& name, const std::string& contents) {
  std::filesystem::rename(folder.write(name + ".part", contents), folder.path(name));
}

TEST(CensusThread, CountsExistingAndNewFiles) {
  const TempDir folder;
  folder.write("auto-a.heap", some_heap_file(7, 3));
  HeapAnalyser heaps({.directory = folder.path()});
  const CensusThread thread(heaps, milliseconds(1));
  wait_for(heaps, 7);
  const auto census = heaps.censuses()->latest(4242, 0);
  ASSERT_EQ(2u, census->classes.size());
  EXPECT_EQ("float", census->classes[0].name);
  keep(folder, "auto-b.heap", some_heap_file(9, 5));
  wait_for(heaps, 9);
}

// Two snapshots stored within one tick of the file system's clock.
TEST(CensusThread, CountsWhatComesAtTheSameTime) {
  const TempDir folder;
  keep(folder, "auto-a.heap", some_heap_file(7));
  HeapAnalyser heaps({.directory = folder.path()});
  const CensusThread thread(heaps, milliseconds(1));
  wait_for(heaps, 7);
  for (std::int64_t ns = 9; ns < 30; ++ns) {
    const auto before = std::filesystem::last_write_time(folder.path());
    keep(folder, "auto-" + std::to_string(ns) + ".heap", some_heap_file(ns));
    const auto passed = std::filesystem::file_time_type::clock::now() - before;
    // Every file system has different times for files this far apart.
    if (passed < std::chrono::seconds(2)) std::filesystem::last_write_time(folder.path(), before);
    wait_for(heaps, ns);
    if (HasFatalFailure()) return;
  }
}

TEST(CensusThread, SkipsFilesThatCannotBeCounted) {
  const TempDir folder;
  const std::string whole = some_heap_file(9);
  folder.write("auto-a.heap", some_heap_file(7));
  folder.write("auto-cut.heap", whole.substr(0, whole.size() - 1));
  folder.write("auto-none.heap", "no heap");
  HeapAnalyser heaps({.directory = folder.path()});
  const CensusThread thread(heaps, milliseconds(1));
  wait_for(heaps, 7);
  EXPECT_EQ(nullptr, heaps.censuses()->of({.pid = 4242, .unix_ns = 9}));
}

TEST(CensusThread, EndsAtOnceWhereNothingIsKept) {
  HeapAnalyser heaps;
  const CensusThread thread(heaps, std::chrono::hours(1));
  EXPECT_EQ(nullptr, heaps.censuses()->latest(4242, 0));
}

}  // namespace
}  // namespace memprofd
