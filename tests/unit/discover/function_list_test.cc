// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/function_list.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/kit/sparse_elf.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kFirst = 0x100, kEnd = 4096;

class FunctionListTest : public ::testing::Test {
 protected:
  // N functions camlA.f, each from its own byte to the end of the code, and one in C.
  std::unique_ptr<ElfFile> open(std::size_t count, std::uint32_t table = SHT_SYMTAB) {
    std::vector<Elf64_Sym> symbols = {function_symbol(9, kFirst - 8, 8)};
    for (std::uint64_t i = 0; i < count; ++i) {
      symbols.push_back(function_symbol(1, kFirst + i, kEnd - kFirst - i));
    }
    SparseElf elf;
    elf.add_symbols(table, symbols, std::string("\0camlA.f\0caml_c\0", 16));
    elf.write(dir_.path("x.exe"));
    return *ElfFile::open(dir_.path("x.exe"), "/bin/x");
  }
  static FunctionChoice all(std::size_t most) {
    return {.name_of = [](const ElfFunction& function) { return std::optional(function.name); },
            .most = most};
  }

  TempDir dir_;
};

TEST_F(FunctionListTest, ThoseOfOcamlAreListed) {
  const auto file = open(3);
  const auto list = list_functions(*file, all(10));
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->functions.size(), 3u);
  EXPECT_EQ(list->matching, 3u);
  EXPECT_EQ(list->functions[0].name, "camlA.f");
  EXPECT_EQ(list->functions[1].address, kFirst + 1);
}

TEST_F(FunctionListTest, AllThatMatchAreCountedAndNotKept) {
  const auto file = open(30);
  const auto list = list_functions(*file, all(10));
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->matching, 30u);
  EXPECT_LE(list->functions.size(), 10u);
}

TEST_F(FunctionListTest, AStrippedProgramIsRefused) {
  const auto file = open(3, SHT_DYNSYM);
  EXPECT_EQ(list_functions(*file, all(10)).status().message(),
            "/bin/x is stripped, so its functions cannot be found; use a program file that has its "
            "symbol table (.symtab)");
}

// Each function spans nearly all of the code; the total read is bounded.
TEST_F(FunctionListTest, CodeWithoutEndIsNotRead) {
  const auto file = open(2000);
  const auto list = list_functions(*file, all(2000));
  ASSERT_TRUE(list.ok());
  std::uint64_t bytes = 0;
  for (const ListedFunction& function : list->functions) {
    if (function.code.why_uncounted != "there is too much code") bytes += function.size;
  }
  EXPECT_GT(bytes, 3u << 20);
  EXPECT_LE(bytes, 4u << 20);
}

}  // namespace
}  // namespace memprofd
