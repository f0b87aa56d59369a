// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/heaps/census_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "tests/kit/heap_file.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;

// Until there is a census of that snapshot of pid 4242.
void wait_for(const InnerHeaps& heaps, std::int64_t unix_ns) {
  while (heaps.censuses()->of({.pid = 4242, .unix_ns = unix_ns}) == nullptr) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST(CensusThread, CountsWhatIsKeptAndWhatComes) {
  const TempDir folder;
  folder.write("auto-a.heap", some_heap_file(7, 3));
  InnerHeaps heaps({.directory = folder.path()});
  const CensusThread thread(heaps, milliseconds(1));
  wait_for(heaps, 7);
  const auto census = heaps.censuses()->latest(4242, 0);
  ASSERT_EQ(2u, census->classes.size());
  EXPECT_EQ("float", census->classes[0].name);
  folder.write("auto-b.heap", some_heap_file(9, 5));
  wait_for(heaps, 9);
}

TEST(CensusThread, GoesOnPastWhatCannotBeCounted) {
  const TempDir folder;
  const std::string whole = some_heap_file(9);
  folder.write("auto-a.heap", some_heap_file(7));
  folder.write("auto-cut.heap", whole.substr(0, whole.size() - 1));
  folder.write("auto-none.heap", "no heap");
  InnerHeaps heaps({.directory = folder.path()});
  const CensusThread thread(heaps, milliseconds(1));
  wait_for(heaps, 7);
  EXPECT_EQ(nullptr, heaps.censuses()->of({.pid = 4242, .unix_ns = 9}));
}

TEST(CensusThread, EndsAtOnceWhereNothingIsKept) {
  InnerHeaps heaps;
  const CensusThread thread(heaps, std::chrono::hours(1));
  EXPECT_EQ(nullptr, heaps.censuses()->latest(4242, 0));
}

}  // namespace
}  // namespace memprofd
