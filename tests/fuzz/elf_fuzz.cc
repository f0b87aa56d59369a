// SPDX-License-Identifier: Apache-2.0
// Reads arbitrary bytes as an ELF file of a target, asks it all that memprofd asks of one, and
// checks that the answers stay within the file and the budget.
//
//   clang++ -std=c++20 -g -O1 -I. -fsanitize=fuzzer,address,undefined
//     tests/fuzz/elf_fuzz.cc daemon/discover/{elf,stap}*.cc
//     daemon/util/{byte_budget,open_files,read_at,units}.cc -lfmt -labsl_... -o elf_fuzz
//     && ./elf_fuzz CORPUS /lib/x86_64-linux-gnu
//
// tests/unit/discover/elf_fuzz_test.cc runs it with mutations of real and hand-made files in every
// build.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/stap_notes.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kFuzzBudget = 1u << 20;

void require_elf(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "elf_fuzz: %s\n", what);
  std::abort();
}

UniqueFd file_of(const std::uint8_t* data, std::size_t size) {
  UniqueFd fd(::memfd_create("elf_fuzz", MFD_CLOEXEC));
  const bool written = ::pwrite(fd.get(), data, size, 0) == static_cast<ssize_t>(size);
  require_elf(written, "the file cannot be written");
  return fd;
}

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
  require_elf(function->address <= address, "a function that begins behind the address");
  require_elf(!function->name.empty() && function->name.size() <= kMaxSymbolName,
              "a function's name is too long or none");
}

void check_segments(ElfFile& file) {
  for (const ElfSegment& segment : file.segments()) {
    require_elf(segment.file_size <= segment.memory_size, "a segment has more bytes than room");
    const std::uint64_t last = segment.address + segment.memory_size - 1;
    for (const std::uint64_t address : {segment.address, last, last + 1, segment.address - 1}) {
      check_addresses(file, address);
    }
  }
}

void check_symbols(ElfFile& file, std::uint64_t file_bytes) {
  constexpr std::string_view kNames[] = {"caml_frametable", "main", "one", "", "camlPlug__f"};
  require_elf(file.find_symbols(kNames).size() == std::size(kNames), "not an answer for each name");
  const auto found = file.dynamic_symbols([](std::string_view name) {
    require_elf(name.size() <= kMaxSymbolName, "a symbol's name is too long");
    return true;
  });
  require_elf(found.size() * sizeof(Elf64_Sym) <= file_bytes, "more symbols than the file has");
  for (std::size_t i = 0; i < found.size() && i < 16; ++i) check_addresses(file, found[i]);
  if (const auto symbol = file.find_symbol("one")) (void)file.thread_local_offset(*symbol);
}

void check_probes(const std::vector<StapProbe>& probes, std::uint64_t bytes) {
  std::uint64_t text = 0;
  for (const StapProbe& probe : probes) {
    text += probe.provider.size() + probe.name.size() + probe.arguments.size();
  }
  require_elf(text <= bytes, "probes have more text than their notes");
}

}  // namespace
}  // namespace memprofd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace memprofd;
  const auto budget = std::make_shared<ByteBudget>(kFuzzBudget);
  auto file = ElfFile::from_fd(file_of(data, size), "fuzz", budget);
  if (file.ok()) {
    check_segments(**file);
    check_symbols(**file, size);
    check_probes((*file)->stap_probes(), size);
    require_elf((*file)->why_incomplete().find('\n') == std::string::npos, "more than one line");
  } else {
    require_elf(!file.status().message().empty(), "no reason");
  }
  require_elf(budget->peak() <= kFuzzBudget, "more than the budget");
  file = absl::UnknownError("");
  require_elf(budget->used() == 0, "not all is given back");
  const std::string_view notes(reinterpret_cast<const char*>(data), size);
  check_probes(parse_stap_notes(notes, size % 2 == 0 ? 0 : 4096), size);
  return 0;
}
