// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/x86_instruction.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <initializer_list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/discover/elf_file.h"
#include "tests/kit/ocaml_program.h"

namespace memprofd {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> bytes) {
  std::vector<std::byte> code;
  for (const int b : bytes) code.push_back(static_cast<std::byte>(b));
  return code;
}

TEST(X86Instruction, HasItsParts) {
  const auto sub = decode_x86(bytes_of({0x49, 0x83, 0xef, 0x30}));  // sub $0x30,%r15
  ASSERT_TRUE(sub);
  EXPECT_EQ(sub->length, 4);
  EXPECT_TRUE(sub->is(0x83) && sub->wide && sub->rm_is_register(15));
  EXPECT_EQ(sub->reg, 5);
  EXPECT_EQ(sub->immediate, 0x30);

  const auto lea = decode_x86(bytes_of({0x4c, 0x8d, 0x94, 0x24, 0xb8, 0xfe, 0xff, 0xff}));
  ASSERT_TRUE(lea);  // lea -0x148(%rsp),%r10
  EXPECT_EQ(lea->length, 8);
  EXPECT_EQ(lea->reg, 10);
  EXPECT_EQ(lea->rm, 4);
  EXPECT_FALSE(lea->has_index);
  EXPECT_EQ(lea->displacement, -0x148);

  const auto table = decode_x86(bytes_of({0x48, 0x8d, 0x15, 0x10, 0, 0, 0}));
  ASSERT_TRUE(table);  // lea 0x10(%rip),%rdx
  EXPECT_TRUE(table->rip_relative);
  EXPECT_EQ(table->displacement, 0x10);

  const auto jump = decode_x86(bytes_of({0x0f, 0x85, 0xf0, 0xff, 0xff, 0xff}));
  ASSERT_TRUE(jump);
  EXPECT_TRUE(jump->is_jcc() && jump->is_relative());
  EXPECT_EQ(jump->immediate, -16);
}

TEST(X86Instruction, TruncatedOrUnknownInstructionsAreRefused) {
  EXPECT_FALSE(decode_x86({}));
  EXPECT_FALSE(decode_x86(bytes_of({0xe8, 1, 2, 3})));
  EXPECT_FALSE(decode_x86(bytes_of({0x66})));
  EXPECT_FALSE(decode_x86(bytes_of({0x06})));                    // not in 64-bit code
  EXPECT_FALSE(decode_x86(bytes_of({0x66, 0xe9, 1, 2, 3, 4})));  // read differently by others
  EXPECT_FALSE(decode_x86(bytes_of({0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1})));  // EVEX
  EXPECT_FALSE(decode_x86(std::vector(20, std::byte{0x66})));
}

TEST(X86Instruction, AnyBytesEndWithinThem) {
  std::mt19937 random(1);
  std::vector<std::byte> code(15);
  for (int i = 0; i < 200'000; ++i) {
    for (std::byte& b : code) b = static_cast<std::byte>(random());
    const std::size_t size = random() % 16;
    if (const auto found = decode_x86(std::span(code).first(size))) {
      ASSERT_GE(found->length, 1);
      ASSERT_LE(found->length, size);
    }
  }
}

// Addresses of instructions by objdump.
std::map<std::uint64_t, std::string> objdump(const std::string& program) {
  std::map<std::uint64_t, std::string> found;
  const std::string command = "objdump -d --no-show-raw-insn '" + program + "'";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(::popen(command.c_str(), "r"),
                                                            ::pclose);
  char line[4096];
  while (out != nullptr && std::fgets(line, sizeof line, out.get()) != nullptr) {
    char* end = nullptr;
    const std::uint64_t address = std::strtoull(line, &end, 16);
    if (end != line && *end == ':') found[address] = end + 1;
  }
  return found;
}

TEST(X86Instruction, IsAsLongAsObjdumpSays) {
  const TempDir dir;
  const std::string path = compile_ocaml(dir, "sample", R"(
    let rec f x = match x with 0 -> 1.5 | n -> sqrt (float n) +. f (n - 1)
    let () = Printf.printf "%f %d\n" (f 10) (Hashtbl.hash (Array.init 10 string_of_int))
    let () = ignore (Str.regexp "a*"); ignore (Unix.getpid ()))",
                                         "-g -linkpkg");
  ASSERT_NE(path, "");
  const auto listed = objdump(path);
  ASSERT_GT(listed.size(), 10'000u);
  auto program = ElfFile::open(path, path);
  ASSERT_TRUE(program.ok());
  std::size_t functions = 0, instructions = 0;
  (*program)->for_each_function([&](const ElfFunction& function) {
    if (!function.name.starts_with("caml") || std::isupper(function.name[4]) == 0) return;
    std::vector<std::byte> code(function.size);
    ASSERT_TRUE((*program)->read(function.address, code).ok());
    ++functions;
    for (std::size_t at = 0; at < code.size(); ++instructions) {
      const auto found = decode_x86(std::span(code).subspan(at));
      ASSERT_TRUE(found) << function.name << " at " << at;
      at += found->length;
      if (at < code.size()) {
        ASSERT_TRUE(listed.contains(function.address + at)) << function.name << " at " << at;
      }
      ASSERT_LE(at, code.size()) << function.name;
    }
  });
  EXPECT_GT(functions, 500u);
  EXPECT_GT(instructions, 10'000u);
}

}  // namespace
}  // namespace memprofd
