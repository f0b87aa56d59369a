// SPDX-License-Identifier: Apache-2.0
// ELF files whose headers claim much more than the file holds.
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "daemon/util/fd.h"

namespace memprofd {

// A shared library with one executable segment and the sections that a test adds.
class SparseElf {
 public:
  SparseElf() {
    std::memcpy(header_.e_ident, ELFMAG, SELFMAG);
    header_.e_ident[EI_CLASS] = ELFCLASS64;
    header_.e_ident[EI_DATA] = ELFDATA2LSB;
    header_.e_ident[EI_VERSION] = EV_CURRENT;
    header_.e_type = ET_DYN;
    header_.e_machine = EM_X86_64;
    header_.e_version = EV_CURRENT;
    header_.e_ehsize = sizeof(Elf64_Ehdr);
    header_.e_phoff = sizeof(Elf64_Ehdr);
    header_.e_phentsize = sizeof(Elf64_Phdr);
    header_.e_phnum = 1;
    header_.e_shentsize = sizeof(Elf64_Shdr);
    end_ = 4096;
  }
  Elf64_Ehdr& header() { return header_; }

  // Appends the bytes and zeros; returns their offset.
  std::uint64_t put(const std::string& bytes, std::uint64_t zeros = 0) {
    const std::uint64_t at = end_;
    pieces_.emplace_back(at, bytes);
    end_ += (bytes.size() + zeros + 7) / 8 * 8;
    return at;
  }
  // Adds a section of that name; returns its index.
  std::uint32_t add(const std::string& name, std::uint32_t type, std::uint64_t offset,
                    std::uint64_t size, std::uint32_t link = 0) {
    Elf64_Shdr section = {};
    section.sh_name = static_cast<Elf64_Word>(names_.size());
    section.sh_type = type;
    section.sh_offset = offset;
    section.sh_size = size;
    section.sh_link = link;
    names_ += name + '\0';
    sections_.push_back(section);
    return static_cast<std::uint32_t>(sections_.size()) - 1;
  }
  std::uint32_t add_symbols(std::uint32_t type, const std::vector<Elf64_Sym>& symbols,
                            const std::string& strings, std::uint64_t more_symbols = 0,
                            std::uint64_t more_strings = 0) {
    const std::string bytes(reinterpret_cast<const char*>(symbols.data()),
                            symbols.size() * sizeof(Elf64_Sym));
    const std::uint64_t zeros = more_symbols * sizeof(Elf64_Sym);
    const std::uint64_t at = put(bytes, zeros);
    const std::uint64_t strings_at = put(strings, more_strings);
    const std::uint32_t link = add(".names", SHT_STRTAB, strings_at, strings.size() + more_strings);
    return add(".symbols", type, at, bytes.size() + zeros, link);
  }
  Elf64_Shdr& section(std::uint32_t index) { return sections_[index]; }

  // claimed: the number of sections in the header, up to 80 million of them as zeros; 0: the real
  // number. Uses the extended form if it does not fit the header.
  void write(const std::string& path, std::uint64_t claimed = 0, bool extended = false) {
    write(UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755)), claimed,
          extended);
  }
  void write(const UniqueFd& fd, std::uint64_t claimed = 0, bool extended = false) {
    const std::uint32_t names = add(".shstrtab", SHT_STRTAB, 0, 0);
    sections_[names].sh_offset = put(names_);
    sections_[names].sh_size = names_.size();
    if (claimed == 0) claimed = sections_.size();
    extended |= claimed >= SHN_LORESERVE;
    header_.e_shoff = end_;
    header_.e_shnum = static_cast<Elf64_Half>(extended ? 0 : claimed);
    header_.e_shstrndx = static_cast<Elf64_Half>(extended ? SHN_XINDEX : names);
    if (extended) {
      sections_[0].sh_size = claimed;
      sections_[0].sh_link = names;
    }
    const Elf64_Phdr code{.p_type = PT_LOAD,
                          .p_flags = PF_R | PF_X,
                          .p_offset = 0,
                          .p_vaddr = 0,
                          .p_paddr = 0,
                          .p_filesz = 4096,
                          .p_memsz = 4096,
                          .p_align = 4096};
    write_at(fd, 0, &header_, sizeof header_);
    write_at(fd, header_.e_phoff, &code, sizeof code);
    for (const auto& [at, bytes] : pieces_) write_at(fd, at, bytes.data(), bytes.size());
    write_at(fd, end_, sections_.data(), sections_.size() * sizeof(Elf64_Shdr));
    const std::uint64_t there = std::clamp<std::uint64_t>(claimed, sections_.size(), 80'000'000);
    const std::uint64_t size = end_ + there * sizeof(Elf64_Shdr);
    if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) std::abort();
  }

 private:
  static void write_at(const UniqueFd& fd, std::uint64_t at, const void* bytes, std::size_t size) {
    if (::pwrite(fd.get(), bytes, size, static_cast<off_t>(at)) != static_cast<ssize_t>(size)) {
      std::abort();
    }
  }

  Elf64_Ehdr header_ = {};
  std::vector<std::pair<std::uint64_t, std::string>> pieces_;
  std::vector<Elf64_Shdr> sections_ = std::vector<Elf64_Shdr>(1);
  std::string names_ = std::string(1, '\0');
  std::uint64_t end_ = 0;
};

inline Elf64_Sym function_symbol(std::uint32_t name, std::uint64_t address, std::uint64_t size) {
  Elf64_Sym symbol = {};
  symbol.st_name = name;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol.st_shndx = 1;
  symbol.st_value = address;
  symbol.st_size = size;
  return symbol;
}

}  // namespace memprofd
