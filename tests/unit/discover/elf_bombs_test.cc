// SPDX-License-Identifier: Apache-2.0
// Hostile ELF files that try to exhaust memprofd's memory.
#include <gtest/gtest.h>

#include <random>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/program_check.h"
#include "daemon/discover/stap_notes.h"
#include "tests/kit/full_length.h"
#include "tests/kit/memory_file.h"
#include "tests/kit/sparse_elf.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kMega = 1u << 20;
using Names = std::vector<std::string_view>;

class ElfBombs : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ElfFile>> open(SparseElf& elf, std::uint64_t claimed = 0,
                                                bool extended = false) {
    elf.write(dir_.path("x.so"), claimed, extended);
    return ElfFile::open(dir_.path("x.so"), "/lib/x.so", budget_);
  }
  std::unique_ptr<ElfFile> opened(SparseElf& elf, bool extended = false) {
    auto file = open(elf, 0, extended);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  TempDir dir_;
  SharedBudget budget_ = std::make_shared<ByteBudget>(256 * kMega);
};

TEST_F(ElfBombs, FilesOfMillionsOfSectionsAreRefused) {
  for (const std::uint64_t sections : {65'537ull, 4'000'000ull, 80'000'000ull, ~0ull >> 8}) {
    SparseElf elf;
    const auto file = open(elf, sections);
    ASSERT_FALSE(file.ok()) << sections;
    EXPECT_EQ(file.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(file.status().message().find(
                    "sections; files with more than 65,536 are not read") != std::string::npos)
        << file.status();
  }
  EXPECT_EQ(budget_->peak(), 0u);
}

TEST_F(ElfBombs, AsManySectionsAsMayBeAreRead) {
  SparseElf elf;
  elf.add_symbols(SHT_SYMTAB, {function_symbol(1, 0x10, 8)}, std::string("\0one\0", 5));
  ASSERT_TRUE(open(elf, 65'536).ok());
  const auto file = ElfFile::open(dir_.path("x.so"), "/lib/x.so", budget_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->find_symbol("one").has_value());
}

TEST_F(ElfBombs, ExtendedNumbersAreUnderstood) {
  SparseElf elf;
  elf.add_symbols(SHT_DYNSYM, {function_symbol(1, 0x10, 8)}, std::string("\0one\0", 5));
  const auto file = opened(elf, true);
  EXPECT_EQ(file->find_symbol("one")->address, 0x10u);
  EXPECT_EQ(file->function_at(0x17)->name, "one");
  EXPECT_EQ(file->why_incomplete(), "");
}

TEST_F(ElfBombs, NamesThatDoNotFitAreRefused) {
  SparseElf elf;
  elf.add_symbols(SHT_DYNSYM, {function_symbol(1, 0x10, 8)}, std::string("\0one\0", 5), 0,
                  1024 * kMega);
  const auto file = opened(elf);
  EXPECT_FALSE(file->find_symbol("one").has_value());
  EXPECT_TRUE(file->dynamic_symbols([](auto) { return true; }).empty());
  EXPECT_EQ(file->why_incomplete(),
            "/lib/x.so: the names of its symbols need 1.00 GiB, more than is left of the 256 MiB "
            "that one target may use");
  EXPECT_EQ(budget_->peak(), 0u);
  EXPECT_EQ(budget_->refused(), 2u) << "its symbol, each time";
  EXPECT_EQ(file->function_at(0x12)->name, "one") << "one name is read alone";
}

TEST_F(ElfBombs, AProgramWhoseNamesDoNotFitIsNotMistaken) {
  SparseElf elf;
  elf.add_symbols(SHT_SYMTAB, {function_symbol(1, 0x10, 8)}, std::string("\0one\0", 5), 0,
                  1024 * kMega);
  const auto file = opened(elf);
  EXPECT_EQ(check_program(*file).status().message(),
            "cannot be read: /lib/x.so: the names of its symbols need 1.00 GiB, more than is "
            "left of the 256 MiB that one target may use; shorten its symbol table (strip -x)");
}

TEST_F(ElfBombs, NamesAreGivenBackAfterEachQuestion) {
  SparseElf elf;
  elf.add_symbols(SHT_SYMTAB, {function_symbol(1, 0x10, 8)}, std::string("\0one\0", 5), 0, kMega);
  const auto file = opened(elf);
  EXPECT_TRUE(file->find_symbol("one").has_value());
  EXPECT_EQ(budget_->used(), 0u);
  EXPECT_GE(budget_->peak(), kMega);
}

TEST_F(ElfBombs, SymbolsBeyondTheLimitAreLeftOut) {
  SparseElf elf;
  elf.add_symbols(SHT_SYMTAB, {function_symbol(1, 0x10, 8)}, std::string("\0one\0two\0", 9),
                  1024 * kMega / sizeof(Elf64_Sym));
  const auto file = opened(elf);
  EXPECT_TRUE(file->find_symbol("one").has_value());
  EXPECT_FALSE(file->find_symbol("two").has_value());
  EXPECT_EQ(file->why_incomplete(), "/lib/x.so: only 4,194,304 of its 44,739,243 symbols are read");
  EXPECT_EQ(file->function_at(0x10)->name, "one");
  EXPECT_LE(budget_->peak(), kMega);
}

TEST_F(ElfBombs, FunctionsTakeWhatIsLeftAndNoMore) {
  budget_ = std::make_shared<ByteBudget>(kMega);
  std::vector<Elf64_Sym> symbols;
  for (std::uint64_t i = 0; i < 200'000; ++i) symbols.push_back(function_symbol(1, 16 * i, 16));
  SparseElf elf;
  elf.add_symbols(SHT_SYMTAB, symbols, std::string("\0one\0", 5));
  auto file = opened(elf);
  EXPECT_EQ(file->function_at(20)->name, "one");
  EXPECT_FALSE(file->function_at(16 * 199'999).has_value());
  EXPECT_NE(file->why_incomplete(), "");
  EXPECT_GT(budget_->used(), kMega / 4);
  EXPECT_GT(budget_->refused(), 100'000u) << "each that was left out";
  EXPECT_LT(budget_->refused(), 200'000u);
  file.reset();
  EXPECT_EQ(budget_->used(), 0u);
}

// A symbol may name the tail of another's name; that costs time, but no memory.
TEST_F(ElfBombs, NamesThatOverlap) {
  const std::string last = "aaaa_last";
  const std::string strings = '\0' + std::string(kMega, 'a') + last + '\0';
  std::vector<Elf64_Sym> symbols;
  for (std::uint32_t i = 0; i < 100'000; ++i) symbols.push_back(function_symbol(1 + i, i, 1));
  symbols.push_back(
      function_symbol(static_cast<std::uint32_t>(strings.size() - last.size() - 1), 7, 1));
  SparseElf elf;
  elf.add_symbols(SHT_DYNSYM, symbols, strings);
  const auto file = opened(elf);
  EXPECT_EQ(file->find_symbol(last)->address, 7u);
  EXPECT_FALSE(file->find_symbol("aaaa_las").has_value());
  EXPECT_EQ(file->dynamic_symbols([](auto) { return true; }).size(), 1u) << "others are too long";
  EXPECT_FALSE(file->function_at(50'000).has_value());
}

TEST_F(ElfBombs, AnswersToOneQuestionHaveALimit) {
  SparseElf elf;
  elf.add_symbols(SHT_DYNSYM, std::vector(100'000, function_symbol(1, 16, 1)),
                  std::string("\0one\0", 5));
  const auto file = opened(elf);
  EXPECT_EQ(file->dynamic_symbols([](auto) { return true; }).size(), 65'536u);
  EXPECT_EQ(file->why_incomplete(), "/lib/x.so: only 65,536 of its symbols are read");
}

TEST_F(ElfBombs, SectionsBeyondTheFileAreNotThere) {
  for (const std::uint64_t size : {1ull << 40, ~0ull, ~0ull - 4096}) {
    SparseElf elf;
    const std::uint32_t index =
        elf.add_symbols(SHT_SYMTAB, {function_symbol(1, 16, 1)}, std::string("\0one\0", 5));
    elf.section(index).sh_size = size;
    elf.add(".note.stapsdt", SHT_NOTE, 4096, size);
    const auto file = opened(elf);
    EXPECT_FALSE(file->has_symtab());
    EXPECT_FALSE(file->find_symbol("one").has_value());
    EXPECT_FALSE(file->function_at(16).has_value());
    EXPECT_TRUE(file->stap_probes().empty());
  }
}

TEST_F(ElfBombs, ProbesHaveALimit) {
  SparseElf elf;
  const std::uint64_t at = elf.put("", 1024 * kMega);
  elf.add(".note.stapsdt", SHT_NOTE, at, 1024 * kMega);
  const auto file = opened(elf);
  EXPECT_TRUE(file->stap_probes().empty());
  EXPECT_EQ(file->why_incomplete(), "/lib/x.so: only 4.00 MiB of its probes are read");
}

// Random damage: whatever the file claims, the budget holds and everything is returned to it.
TEST_F(ElfBombs, TotalOnDamagedTables) {
  std::mt19937_64 random(3);
  budget_ = std::make_shared<ByteBudget>(kMega);
  const int rounds = rounds_of(500, 50'000);
  int opened = 0;
  for (int round = 0; round < rounds; ++round) {
    SparseElf elf;
    std::vector<Elf64_Sym> symbols;
    for (std::uint32_t i = 0; i < 50; ++i) symbols.push_back(function_symbol(random() % 40, i, i));
    elf.add_symbols(SHT_DYNSYM, symbols, std::string("\0one\0two\0three\0four", 20), random() % 99);
    elf.add_symbols(SHT_SYMTAB, symbols, std::string("\0five\0six\0seven", 16), 0, random() % 99);
    elf.add(".note.stapsdt", SHT_NOTE, 4096, random() % 4096);
    for (std::uint64_t k = random() % 4; k > 0; --k) {
      auto* bytes = reinterpret_cast<unsigned char*>(&elf.section(random() % 6));
      bytes[random() % sizeof(Elf64_Shdr)] = static_cast<unsigned char>(random());
    }
    UniqueFd fd = memory_file();
    elf.write(fd, 0, random() % 2 == 0);
    auto file = ElfFile::from_fd(std::move(fd), "/lib/x.so", budget_);
    if (!file.ok()) continue;
    ++opened;
    (*file)->find_symbols(Names{"one", "six", ""});
    (*file)->function_at(random() % 60);
    (*file)->stap_probes();
    file->reset();
    ASSERT_EQ(budget_->used(), 0u);
  }
  EXPECT_GT(opened, rounds / 2);
  EXPECT_LE(budget_->peak(), kMega);
}

std::string note(const std::string& owner, std::uint32_t type, const std::string& text) {
  const auto padded = [](std::string s) { return s.append((4 - s.size() % 4) % 4, '\0'); };
  const Elf64_Nhdr header{.n_namesz = static_cast<Elf64_Word>(owner.size()),
                          .n_descsz = static_cast<Elf64_Word>(text.size()),
                          .n_type = type};
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + padded(owner) +
         padded(text);
}

TEST(StapNotes, EveryCutIsUnderstood) {
  const std::string owner("stapsdt\0", 8);
  const std::uint64_t words[3] = {0x1000, 0x500, 0x2000};
  const std::string probe = std::string(reinterpret_cast<const char*>(words), sizeof words) +
                            std::string("p\0n\0a@b\0", 8);
  const std::string notes = note("GNU\0", 3, "other") + note(owner, 3, probe) +
                            note(owner, 4, probe) + note(owner, 3, probe);
  for (std::size_t size = 0; size <= notes.size(); ++size) {
    EXPECT_LE(parse_stap_notes(notes.substr(0, size), 0x600).size(), 2u);
  }
  const auto probes = parse_stap_notes(notes, 0x600);
  ASSERT_EQ(probes.size(), 2u);
  EXPECT_EQ(probes[1].provider, "p");
  EXPECT_EQ(probes[1].arguments, "a@b");
  EXPECT_EQ(probes[1].location, 0x1100u);
  EXPECT_EQ(probes[1].semaphore, 0x2100u);
}

}  // namespace
}  // namespace memprofd
