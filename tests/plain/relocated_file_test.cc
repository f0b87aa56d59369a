// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/relocated_file.h"

#include <gtest/gtest.h>
#include <link.h>

#include <array>
#include <cstring>

#include "daemon/util/byte_budget.h"

namespace memprofd {
namespace {

constexpr char kFirst[] = "first", kSecond[] = "second";
// The linker relocates these when the test program is loaded.
const std::array<const char*, 3> kPointers{kFirst, kSecond, kFirst};

std::uint64_t own_bias() {
  std::uint64_t bias = 0;
  // The first is the program.
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uint64_t*>(out) = info->dlpi_addr;
        return 1;
      },
      &bias);
  return bias;
}

// Of a program that the linker relocates, which one with sanitizers is not.
class RelocatedFileTest : public ::testing::Test {
 protected:
  RelocatedFileTest()
      : file_(ElfFile::open("/proc/self/exe", "the test", ByteBudget::for_target()).value()),
        memory_(RelocatedFile::open(*file_, own_bias()).value()) {}

  std::unique_ptr<ElfFile> file_;
  RelocatedFile memory_;
};

TEST_F(RelocatedFileTest, PointersAreAsInMemory) {
  const auto begin = reinterpret_cast<std::uint64_t>(kPointers.data());
  for (std::size_t offset = 0; offset < sizeof kPointers; ++offset) {
    for (std::size_t bytes = 1; bytes <= sizeof kPointers - offset; ++bytes) {
      std::array<std::byte, sizeof kPointers> out{};
      ASSERT_TRUE(memory_.read(begin + offset, std::span(out).first(bytes)).ok());
      ASSERT_EQ(
          std::memcmp(out.data(), reinterpret_cast<const std::byte*>(&kPointers) + offset, bytes),
          0)
          << bytes << " bytes at " << offset;
    }
  }
}

TEST_F(RelocatedFileTest, OtherBytesAreAsInTheFile) {
  std::array<char, sizeof kSecond> out{};
  ASSERT_TRUE(
      memory_.read(reinterpret_cast<std::uint64_t>(kSecond), std::as_writable_bytes(std::span(out)))
          .ok());
  EXPECT_STREQ(out.data(), kSecond);
}

TEST_F(RelocatedFileTest, NothingIsBehindTheSegments) {
  std::uint64_t out = 0;
  EXPECT_FALSE(memory_.read_value(8, out).ok());
  EXPECT_FALSE(memory_.read_value(memory_.mappings().back().end, out).ok());
  EXPECT_FALSE(memory_.read_value(~std::uint64_t{3}, out).ok());
}

TEST_F(RelocatedFileTest, MappingsHaveTheProgram) {
  const auto address = reinterpret_cast<std::uint64_t>(&kPointers);
  bool found = false;
  std::uint64_t end = 0;
  for (const Mapping& mapping : memory_.mappings()) {
    EXPECT_GE(mapping.begin, end);
    end = mapping.end;
    found = found || (mapping.begin <= address && address < mapping.end);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace memprofd
