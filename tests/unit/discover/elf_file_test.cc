// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

#include "daemon/discover/agent_finder.h"
#include "tests/kit/full_length.h"
#include "tests/kit/memory_file.h"
#include "tests/kit/temp_dir.h"

// A probe with a semaphore in this test program, and a symbol of known size.
__extension__ unsigned short memprofd_test_elf_semaphore
    __attribute__((unused, section(".probes"), used)) = 7;
extern "C" __attribute__((noinline, used)) int memprofd_test_function(int x) {
  asm volatile(
      "990: nop\n"
      ".pushsection .note.stapsdt,\"?\",\"note\"\n"
      ".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
      "991: .asciz \"stapsdt\"\n992: .balign 4\n"
      "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte memprofd_test_elf_semaphore\n"
      ".asciz \"memprofd_test\"\n.asciz \"elf\"\n.asciz \"4@%%edi\"\n"
      "994: .balign 4\n.popsection\n"
      ".ifndef _.stapsdt.base\n"
      ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
      ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"
      "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n.endif\n"
      : "+r"(x));
  return x;
}

extern "C" {
__attribute__((used)) thread_local int memprofd_test_thread_local = 1;
}

namespace memprofd {
namespace {

// Reads bytes of this test program, which is large.
std::string bytes_of_self(std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  std::ifstream self("/proc/self/exe", std::ios::binary);
  self.seekg(static_cast<std::streamoff>(offset));
  self.read(bytes.data(), static_cast<std::streamsize>(size));
  return self ? bytes : "";
}

std::uint64_t here(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

class SelfElf : public testing::Test {
 protected:
  void SetUp() override {
    auto file = ElfFile::open("/proc/self/exe", "self");
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    const ProcFs proc;
    const auto bias = find_load_bias(*proc.maps(::getpid()), *proc.exe(::getpid()), *file_);
    ASSERT_TRUE(bias.has_value());
    bias_ = *bias;
  }
  std::unique_ptr<ElfFile> file_;
  std::uint64_t bias_ = 0;
};

TEST_F(SelfElf, FindsThreadLocalVariablesBelowTheThreadPointer) {
  const auto symbol = file_->find_symbol("memprofd_test_thread_local");
  ASSERT_TRUE(symbol.has_value());
  const auto offset = file_->thread_local_offset(*symbol);
  ASSERT_TRUE(offset.has_value());
  std::uint64_t thread_pointer = 0;
  asm("mov %%fs:0, %0" : "=r"(thread_pointer));
  EXPECT_EQ(thread_pointer + static_cast<std::uint64_t>(*offset),
            here(&memprofd_test_thread_local));
  EXPECT_FALSE(file_->thread_local_offset({.address = 1ull << 40, .size = 8}).has_value());
}

TEST_F(SelfElf, FindsSymbolsWhereTheyAre) {
  const auto symbol = file_->find_symbol("memprofd_test_function");
  ASSERT_TRUE(symbol.has_value());
  EXPECT_EQ(bias_ + symbol->address, here(reinterpret_cast<void*>(&memprofd_test_function)));
  EXPECT_GT(symbol->size, 0u);
  EXPECT_FALSE(file_->find_symbol("no_such_symbol_anywhere").has_value());
  EXPECT_FALSE(file_->find_symbol("").has_value());
  EXPECT_FALSE(file_->find_symbol("free").has_value()) << "undefined symbols are not found";
  EXPECT_TRUE(file_->has_symtab());
}

TEST_F(SelfElf, FindsTheFunctionAroundAnAddress) {
  const auto symbol = file_->find_symbol("memprofd_test_function");
  ASSERT_TRUE(symbol.has_value());
  for (const std::uint64_t at : {std::uint64_t{0}, symbol->size - 1}) {
    const auto function = file_->function_at(symbol->address + at);
    ASSERT_TRUE(function.has_value());
    EXPECT_EQ(function->name, "memprofd_test_function");
  }
  const auto after = file_->function_at(symbol->address + symbol->size);
  EXPECT_TRUE(!after || after->name != "memprofd_test_function");
  EXPECT_FALSE(file_->function_at(0).has_value());
  EXPECT_FALSE(file_->function_at(~0ull).has_value());
}

TEST_F(SelfElf, ReadsCodeAndZeroedData) {
  const auto symbol = file_->find_symbol("memprofd_test_function");
  std::array<std::byte, 8> code = {};
  ASSERT_TRUE(file_->read(symbol->address, code).ok());
  EXPECT_EQ(std::memcmp(code.data(), reinterpret_cast<void*>(&memprofd_test_function), 8), 0);
  const auto offset = file_->offset_of(symbol->address);
  ASSERT_TRUE(offset.has_value());
  EXPECT_EQ(bytes_of_self(*offset, 8), std::string(reinterpret_cast<char*>(code.data()), 8));
  const ElfSegment& last = file_->segments().back();
  ASSERT_GT(last.memory_size, last.file_size) << "no .bss";
  std::array<std::byte, 4> tail = {std::byte{1}, std::byte{1}, std::byte{1}, std::byte{1}};
  ASSERT_TRUE(file_->read(last.address + last.memory_size - 4, tail).ok());
  EXPECT_EQ(tail, (std::array<std::byte, 4>{}));
  EXPECT_FALSE(file_->offset_of(last.address + last.memory_size - 4).has_value());
  EXPECT_FALSE(file_->read(last.address + last.memory_size - 3, tail).ok());
  EXPECT_FALSE(file_->read(~0ull - 1, tail).ok());
}

TEST_F(SelfElf, FindsStapProbes) {
  bool found = false;
  for (const StapProbe& probe : file_->stap_probes()) {
    if (probe.provider != "memprofd_test") continue;
    found = true;
    EXPECT_EQ(probe.name, "elf");
    EXPECT_EQ(probe.arguments, "4@%edi");
    const auto function = file_->function_at(probe.location);
    ASSERT_TRUE(function.has_value());
    EXPECT_EQ(function->name, "memprofd_test_function");
    EXPECT_EQ(bias_ + probe.semaphore, here(&memprofd_test_elf_semaphore));
    std::uint16_t initial = 0;
    ASSERT_TRUE(file_->read(probe.semaphore, std::as_writable_bytes(std::span(&initial, 1))).ok());
    EXPECT_EQ(initial, 7);
  }
  EXPECT_TRUE(found);
}

TEST(ElfFile, LoadBiasOfFixedAndMovedPrograms) {
  const auto file = ElfFile::open("/proc/self/exe", "self");
  ASSERT_TRUE(file.ok());
  const ElfSegment* code = nullptr;
  for (const ElfSegment& segment : (*file)->segments()) {
    if (segment.executable) code = &segment;
  }
  ASSERT_NE(code, nullptr);
  const std::uint64_t start = code->address & ~0xfffull;
  const std::uint64_t offset = code->offset & ~0xfffull;
  EXPECT_EQ((*file)->load_bias(start, start + 0x1000, offset), 0u);
  EXPECT_EQ((*file)->load_bias(start + 0x555500000000, start + 0x555500001000, offset),
            0x555500000000u);
  EXPECT_FALSE((*file)->load_bias(start, start + 0x1000, offset + 0x10000000).has_value());
}

std::string refusal(const TempDir& dir, const std::string& contents) {
  const auto file = ElfFile::open(dir.write("file", contents), "/bin/x");
  return file.ok() ? "accepted" : std::string(file.status().message());
}

TEST(ElfFile, RefusesWhatItCannotRead) {
  TempDir dir;
  const std::string self = bytes_of_self(0, 4096);
  EXPECT_EQ(refusal(dir, ""), "/bin/x is not an ELF file");
  EXPECT_EQ(refusal(dir, "#!/bin/sh\nexit 0\n"), "/bin/x is not an ELF file");
  std::string narrow = self;
  narrow[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(refusal(dir, narrow), "/bin/x is a 32-bit program; only 64-bit ones are supported");
  std::string foreign = self;
  foreign[18] = static_cast<char>(EM_RISCV);
  EXPECT_EQ(refusal(dir, foreign),
            "/bin/x is for ELF machine 243; only x86-64 and aarch64 are known");
  std::string object = self;
  object[16] = ET_REL;
  EXPECT_EQ(refusal(dir, object), "/bin/x is neither a program nor a shared library");
  EXPECT_EQ(refusal(dir, self.substr(0, 40)),
            "/bin/x is a damaged ELF file: it ends inside the header");
  EXPECT_EQ(ElfFile::open(dir.path("none"), "/bin/x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ElfFile::open(dir.path(), "/bin/x").status().message(), "/bin/x is not a regular file");
}

// Uses every function; the test is that each one returns.
std::size_t exercise(ElfFile& file) {
  std::size_t answers = file.stap_probes().size();
  answers += file.find_symbol("memprof_agent_control").has_value() ? 1 : 0;
  for (const ElfSegment& segment : file.segments()) {
    std::array<std::byte, 64> bytes;
    answers += file.read(segment.address, bytes).ok() ? 1 : 0;
    answers += file.function_at(segment.address + 16).has_value() ? 1 : 0;
    answers += file.offset_of(segment.address).has_value() ? 1 : 0;
    file.load_bias(segment.address, segment.address + 4096, segment.offset).has_value();
  }
  return answers;
}

std::string small_library() {
  const TempDir dir;
  dir.write("a.c", "int memprof_agent_control = 3; int f(void) { return memprof_agent_control; }");
  const std::string compile =
      "gcc -shared -fPIC '" + dir.path("a.c") + "' -o '" + dir.path("a.so") + "'";
  return std::system(compile.c_str()) == 0 ? read_file(dir.path("a.so")) : "";
}

// A library that is damaged at random or cut short.
TEST(ElfFile, TotalOnCorruptFiles) {
  const std::string good = small_library();
  ASSERT_FALSE(good.empty());
  std::uint64_t section_headers = 0;
  std::memcpy(&section_headers, good.data() + offsetof(Elf64_Ehdr, e_shoff), 8);
  std::mt19937_64 random(1);
  const int rounds = rounds_of(500, 50'000);
  int refused = 0;
  std::size_t answers = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bad = good;
    if (round % 3 == 0) bad.resize(random() % bad.size());
    // Mostly at the structure: headers, and section headers at the end.
    for (int k = 0; k < 6 && bad.size() > 64; ++k) {
      const std::uint64_t at = k % 2 == 0 ? random() % 0x400 : section_headers + random() % 0x600;
      const std::uint64_t value = random() % 3 == 0 ? ~0ull : random();
      if (at + 8 < bad.size()) std::memcpy(bad.data() + at, &value, 1 + random() % 8);
    }
    const auto file = ElfFile::from_fd(memory_file(bad), "bad");
    if (file.ok()) {
      answers += exercise(**file);
    } else {
      EXPECT_FALSE(file.status().message().empty());
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 15);
  EXPECT_GT(answers, 100u);
}

// The file shrinks after it was opened: errors, no signal.
TEST(ElfFile, SurvivesTruncationWhileOpen) {
  TempDir dir;
  const std::string copy = dir.write("copy", small_library());
  const auto file = ElfFile::open(copy, "copy");
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(copy.c_str(), 100), 0);
  exercise(**file);
  std::array<std::byte, 8> bytes;
  EXPECT_FALSE((*file)->read((*file)->segments().back().address, bytes).ok());
}

}  // namespace
}  // namespace memprofd
