// SPDX-License-Identifier: Apache-2.0
// ELF files of programs: segments, symbols, functions, probes. Results stay within the file and the
// budget.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <iterator>
#include <memory>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/stap_notes.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/kit/memory_file.h"
#include "tests/kit/sparse_elf.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::fuzz {
namespace {

constexpr std::uint64_t kBudget = 1u << 20;

void check_addresses(ElfFile& file, std::uint64_t address) {
  std::array<std::byte, 16> bytes;
  const auto offset = file.offset_of(address);
  const bool readable = file.read(address, std::span(bytes).first(1)).ok();
  (void)file.read(address, bytes);
  (void)offset;
  (void)readable;
  (void)file.load_bias(address, address + 4096, offset.value_or(address));
  const auto function = file.function_at(address);
  if (!function) return;
  require(function->address <= address, "a function that begins behind the address");
  require(!function->name.empty() && function->name.size() <= kMaxSymbolName,
          "a function's name is too long or none");
}

void check_segments(ElfFile& file) {
  for (const ElfSegment& segment : file.segments()) {
    require(segment.file_size <= segment.memory_size, "a segment has more bytes than room");
    const std::uint64_t last = segment.address + segment.memory_size - 1;
    for (const std::uint64_t address : {segment.address, last, last + 1, segment.address - 1}) {
      check_addresses(file, address);
    }
  }
}

void check_symbols(ElfFile& file, std::uint64_t file_bytes) {
  constexpr std::string_view kNames[] = {"caml_frametable", "main", "one", "", "camlPlug__f"};
  require(file.find_symbols(kNames).size() == std::size(kNames), "not an answer for each name");
  const auto found = file.dynamic_symbols([](std::string_view name) {
    require(name.size() <= kMaxSymbolName, "a symbol's name is too long");
    return true;
  });
  require(found.size() * sizeof(Elf64_Sym) <= file_bytes, "more symbols than the file has");
  for (std::size_t i = 0; i < found.size() && i < 16; ++i) check_addresses(file, found[i]);
  if (const auto symbol = file.find_symbol("one")) (void)file.thread_local_offset(*symbol);
}

void check_probes(const std::vector<StapProbe>& probes, std::uint64_t bytes) {
  std::uint64_t text = 0;
  for (const StapProbe& probe : probes) {
    text += probe.provider.size() + probe.name.size() + probe.arguments.size();
  }
  require(text <= bytes, "probes have more text than their notes");
}

bool read(std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  const auto budget = std::make_shared<ByteBudget>(kBudget);
  auto file = ElfFile::from_fd(memory_file(bytes), "fuzz", budget);
  const bool is_elf = file.ok();
  if (is_elf) {
    check_segments(**file);
    check_symbols(**file, size);
    check_probes((*file)->stap_probes(), size);
    require((*file)->why_incomplete().find('\n') == std::string::npos, "more than one line");
  } else {
    require(!file.status().message().empty(), "no reason");
  }
  require(budget->peak() <= kBudget, "more than the budget");
  file = absl::UnknownError("");
  require(budget->used() == 0, "not all is given back");
  check_probes(parse_stap_notes(bytes, size % 2 == 0 ? 0 : 4096), size);
  return is_elf;
}

// ------------------------------------------------------------ seeds

// A library with symbols, functions and two probes, built by this machine's tools.
std::string real_library(const TempDir& dir) {
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
  require(std::system(command.c_str()) == 0, "gcc does not make the library");
  return read_file(to);
}

// Headers whose sizes end at, across and far beyond the end of the file.
std::string hand_made(const TempDir& dir, std::uint64_t claim, bool extended) {
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
  return read_file(path);
}

std::vector<std::string> seeds() {
  const TempDir dir;
  std::vector<std::string> files = {real_library(dir), read_file("/bin/true")};
  for (const std::uint64_t claim : {0ull, 1ull, 24ull, 4096ull, 1ull << 40, ~0ull - 23, ~0ull}) {
    for (const bool extended : {false, true}) files.push_back(hand_made(dir, claim, extended));
  }
  return files;
}

const Add added("elf", {&read, &seeds});

}  // namespace
}  // namespace memprofd::fuzz
