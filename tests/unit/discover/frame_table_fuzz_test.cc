// SPDX-License-Identifier: Apache-2.0
// The fuzz target under pseudo-random mutations of tables that are in order, the same in every run.
#include <gtest/gtest.h>

#include <cstring>

#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput frame_table_fuzz_one_input
#include "tests/fuzz/frame_table_fuzz.cc"
#include "tests/kit/fuzzing.h"

namespace memprofd {
namespace {

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The pointers to two tables, and these: descriptors with live values, allocations and debuginfo.
std::string two_tables() {
  std::string tables, list(1, '\xff');
  const std::uint64_t begin = frame_table_fuzz::kFuzzBase + 3 * sizeof(std::uint64_t);
  for (std::uint64_t table = 0; table < 2; ++table) {
    put(list, begin + tables.size());
    put(tables, std::uint64_t{20});
    for (std::uint64_t i = 0; i < 20; ++i) {
      put(tables, 0x400000 + 64 * i + table);
      put(tables, static_cast<std::uint16_t>(0x20 + i % 4));
      put(tables, static_cast<std::uint16_t>(i % 3));
      for (std::uint64_t live = 0; live < i % 3; ++live) put(tables, std::uint16_t{8});
      if ((i & 2) != 0) tables += std::string("\2\1\1", 3);
      while ((i & 1) != 0 && tables.size() % 4 != 0) tables += '\0';
      for (int debug = (i & 1) == 0 ? 0 : (i & 2) != 0 ? 2 : 1; debug > 0; --debug) {
        put(tables, 0x100u);
      }
      while (tables.size() % 8 != 0) tables += '\0';
    }
  }
  put(list, std::uint64_t{0});
  return list + tables;
}

TEST(FrameTableFuzz, MutatedTables) {
  const std::string seed = two_tables();
  FakeMemory memory(frame_table_fuzz::kFuzzBase);
  for (std::size_t i = 1; i < seed.size(); ++i) memory.put(seed[i]);
  const Mapping mappings[] = {{.begin = frame_table_fuzz::kFuzzBase, .end = memory.end()}};
  const auto whole = read_frame_table(memory, mappings, frame_table_fuzz::kFuzzBase);
  ASSERT_TRUE(whole.ok());
  ASSERT_EQ(whole->descriptors().size(), 40u);
  fuzz({seed}, FuzzRounds(1'000, 300'000), LLVMFuzzerTestOneInput);
}

}  // namespace
}  // namespace memprofd
