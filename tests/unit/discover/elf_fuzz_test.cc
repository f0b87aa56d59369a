// SPDX-License-Identifier: Apache-2.0
// The fuzz target under pseudo-random mutations of real and hand-made ELF files, the same in every
// run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#define LLVMFuzzerTestOneInput elf_fuzz_one_input
#include "tests/fuzz/elf_fuzz.cc"
#include "tests/kit/fuzzing.h"
#include "tests/kit/sparse_elf.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// A library with symbols, functions and two probes, by this machine's tools.
Bytes real_library(const TempDir& dir) {
  const std::string from = dir.write("probes.s", R"(
.text
.globl one, camlPlug__f
.type one, @function
one: nop
.Lhere: nop
ret
.size one, . - one
.type camlPlug__f, @function
camlPlug__f: ret
.section .stapsdt.base, "aG", @progbits, .stapsdt.base, comdat
.weak _.stapsdt.base
_.stapsdt.base: .space 1
.section .note.stapsdt, "", @note
.balign 4
.4byte 8, 2f - 1f, 3
.asciz "stapsdt"
1: .8byte .Lhere, _.stapsdt.base, 0
.asciz "memprof"
.asciz "batch"
.asciz "8@%rdi"
2: .balign 4
.4byte 8, 4f - 3f, 3
.asciz "stapsdt"
3: .8byte one, _.stapsdt.base, one
.asciz "memprof"
.asciz "x"
.asciz ""
4: .balign 4
.section .tbss, "awT", @nobits
.globl main
main: .space 8
.section .note.GNU-stack, "", %progbits
)");
  const std::string to = dir.path("probes.so");
  const std::string command = "gcc -shared -nostdlib '" + from + "' -o '" + to + "'";
  return std::system(command.c_str()) == 0 ? bytes_of(to) : Bytes();
}

// Claims that end at, across and far behind the end of the file.
Bytes hand_made(const TempDir& dir, std::uint64_t claim, bool extended) {
  SparseElf elf;
  const std::string strings("\0one\0two\0", 9);
  const auto symbols = elf.add_symbols(
      SHT_DYNSYM, {function_symbol(1, 0x10, claim), function_symbol(5, 0x20, 0)}, strings);
  elf.add_symbols(SHT_SYMTAB, {function_symbol(4, ~0ull, claim)}, strings);
  elf.section(symbols).sh_size += claim;
  elf.section(symbols).sh_link = static_cast<Elf64_Word>(claim);
  elf.add(".note.stapsdt", SHT_NOTE, elf.put(std::string(24, '\1')), claim);
  const std::string path = dir.path("hand_made");
  elf.write(path, 0, extended);
  return bytes_of(path);
}

std::vector<Bytes> corpus() {
  const TempDir dir;
  std::vector<Bytes> files = {real_library(dir), bytes_of("/bin/true")};
  for (const std::uint64_t claim : {0ull, 1ull, 24ull, 4096ull, 1ull << 40, ~0ull - 23, ~0ull}) {
    for (const bool extended : {false, true}) files.push_back(hand_made(dir, claim, extended));
  }
  return files;
}

// Numbers go where an ELF file has its tables: at its begin and its end, and anywhere.
std::size_t some_place(const Bytes& file, std::mt19937& random) {
  const std::size_t near = random() % std::min<std::size_t>(file.size(), 1024);
  switch (random() % 3) {
    case 0:
      return near;
    case 1:
      return file.size() - 1 - near;
    default:
      return random() % file.size();
  }
}

void mutate(Bytes& file, std::mt19937& random) {
  static constexpr std::uint64_t kTelling[] = {0,        1,   0xff,  0xffff, 0xff00,
                                               1u << 31, ~0u, ~0ull, 4096};
  for (std::size_t n = 1 + random() % 8; n > 0; --n) {
    const std::size_t place = some_place(file, random) & ~std::size_t{random() % 2 ? 7u : 0u};
    const std::uint64_t value = random() % 2 ? kTelling[random() % std::size(kTelling)] : random();
    const std::size_t bytes = std::min<std::size_t>(1u << random() % 4, file.size() - place);
    for (std::size_t i = 0; i < bytes; ++i) {
      file[place + i] = static_cast<std::uint8_t>(value >> (8 * i));
    }
  }
  if (random() % 16 == 0) file.resize(1 + random() % file.size());
}

TEST(ElfFuzzTest, TheCorpusIsRead) {
  for (const Bytes& file : corpus()) {
    ASSERT_FALSE(file.empty());
    ASSERT_EQ(LLVMFuzzerTestOneInput(file.data(), file.size()), 0);
  }
  const TempDir dir;
  const Bytes real = real_library(dir);
  const auto file = ElfFile::from_fd(file_of(real.data(), real.size()), "real");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->stap_probes().size(), 2u);
  EXPECT_TRUE((*file)->find_symbol("one").has_value());
}

TEST(ElfFuzzTest, MutationsStayWithinTheFile) {
  std::mt19937 random(fuzz_seed(20261123));
  const std::vector<Bytes> files = corpus();
  FuzzRounds rounds(1000, 100'000);
  while (rounds.next()) {
    Bytes file = files[random() % files.size()];
    mutate(file, random);
    ASSERT_EQ(LLVMFuzzerTestOneInput(file.data(), file.size()), 0);
  }
}

}  // namespace
}  // namespace memprofd
