// SPDX-License-Identifier: Apache-2.0
// Locates the few sections of an ELF file that memprofd reads. The file is untrusted: its section
// headers are read piece by piece, and those of other sections are not kept.
#pragma once

#include <elf.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace memprofd {

// A range within the file's size at the inspection; empty: not present.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool empty() const { return size == 0; }
};

struct ElfSymbolTable {
  FileRange symbols;  // of Elf64_Sym
  FileRange strings;
};

// The first section of each kind; no linker makes more than one.
struct ElfSections {
  ElfSymbolTable dynamic;        // .dynsym
  ElfSymbolTable full;           // .symtab
  FileRange probes;              // .note.stapsdt
  std::uint64_t probe_base = 0;  // address of .stapsdt.base; 0: none
};

// Upper bound: no linker produces programs or libraries with more sections.
inline constexpr std::uint64_t kMaxElfSections = 65536;

// A file without readable section headers has no sections. Returns an error, about "it", if there
// are too many.
absl::StatusOr<ElfSections> read_elf_sections(int fd, std::uint64_t file_bytes,
                                              const Elf64_Ehdr& header);

}  // namespace memprofd
