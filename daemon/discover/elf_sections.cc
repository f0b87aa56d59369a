// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/elf_sections.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/util/read_at.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

constexpr std::size_t kHeadersAtOnce = 256;
constexpr std::uint64_t kMaxNameBytes = 4u << 20;  // maximum size of all section names

// The section headers of a file, read piece by piece.
class Headers {
 public:
  Headers(int fd, std::uint64_t file_bytes, const Elf64_Ehdr& header)
      : fd_(fd), file_bytes_(file_bytes), offset_(header.e_shoff) {}

  // Returns null if the header is not in the file. The pointer is valid until the next call.
  const Elf64_Shdr* get(std::uint64_t index) {
    if (index < first_ || index - first_ >= piece_.size()) load(index);
    return piece_.empty() ? nullptr : &piece_[index - first_];
  }

 private:
  void load(std::uint64_t index) {
    piece_.clear();
    first_ = index;
    if (offset_ > file_bytes_) return;
    const std::uint64_t there = (file_bytes_ - offset_) / sizeof(Elf64_Shdr);
    if (index >= there) return;
    piece_.resize(std::min<std::uint64_t>(kHeadersAtOnce, there - index));
    const std::uint64_t from = offset_ + index * sizeof(Elf64_Shdr);
    if (!read_at(fd_, from, std::as_writable_bytes(std::span(piece_))).ok()) piece_.clear();
  }

  const int fd_;
  const std::uint64_t file_bytes_;
  const std::uint64_t offset_;
  std::uint64_t first_ = 0;
  std::vector<Elf64_Shdr> piece_;
};

FileRange range_of(const Elf64_Shdr& section, std::uint64_t file_bytes) {
  if (section.sh_type == SHT_NOBITS || (section.sh_flags & SHF_COMPRESSED) != 0) return {};
  if (section.sh_offset > file_bytes || section.sh_size > file_bytes - section.sh_offset) return {};
  return {.offset = section.sh_offset, .size = section.sh_size};
}

class Sections {
 public:
  Sections(int fd, std::uint64_t file_bytes, const Elf64_Ehdr& header)
      : fd_(fd), file_bytes_(file_bytes), header_(header), headers_(fd, file_bytes, header) {}

  absl::StatusOr<ElfSections> read() {
    ASSIGN_OR_RETURN(const std::uint64_t count, number());
    load_names();
    for (std::uint64_t i = 0; i < count; ++i) {
      const Elf64_Shdr* section = headers_.get(i);
      if (section == nullptr) break;
      take(*section);
    }
    find_strings(full_, result_.full);
    find_strings(dynamic_, result_.dynamic);
    return result_;
  }

 private:
  // A number of SHN_LORESERVE or more is stored in the first section header.
  absl::StatusOr<std::uint64_t> number() {
    if (header_.e_shoff == 0 || header_.e_shentsize != sizeof(Elf64_Shdr)) return 0;
    std::uint64_t count = header_.e_shnum;
    if (const Elf64_Shdr* first = headers_.get(0); count == 0 && first != nullptr) {
      count = first->sh_size;
    }
    if (count <= kMaxElfSections) return count;
    return absl::FailedPreconditionError(
        fmt::format("has {} sections; files with more than {} are not read", format_count(count),
                    format_count(kMaxElfSections)));
  }

  void load_names() {
    std::uint64_t index = header_.e_shstrndx;
    if (index == SHN_XINDEX && headers_.get(0) != nullptr) index = headers_.get(0)->sh_link;
    const Elf64_Shdr* section = headers_.get(index);
    const FileRange range = section != nullptr ? range_of(*section, file_bytes_) : FileRange();
    names_.resize(std::min(range.size, kMaxNameBytes));
    if (!read_at(fd_, range.offset, std::as_writable_bytes(std::span(names_))).ok()) names_.clear();
  }

  bool is_named(const Elf64_Shdr& section, std::string_view name) const {
    if (section.sh_name >= names_.size()) return false;
    const auto rest = std::string_view(names_).substr(section.sh_name);
    return rest.size() > name.size() && rest.starts_with(name) && rest[name.size()] == '\0';
  }

  void take(const Elf64_Shdr& section) {
    if (section.sh_type == SHT_SYMTAB && full_.sh_type == SHT_NULL) full_ = section;
    if (section.sh_type == SHT_DYNSYM && dynamic_.sh_type == SHT_NULL) dynamic_ = section;
    if (is_named(section, ".stapsdt.base")) result_.probe_base = section.sh_addr;
    if (section.sh_type == SHT_NOTE && result_.probes.empty() &&
        is_named(section, ".note.stapsdt")) {
      result_.probes = range_of(section, file_bytes_);
    }
  }

  void find_strings(const Elf64_Shdr& symbols, ElfSymbolTable& out) {
    if (symbols.sh_type == SHT_NULL) return;
    out.symbols = range_of(symbols, file_bytes_);
    const Elf64_Shdr* strings = headers_.get(symbols.sh_link);
    if (strings != nullptr) out.strings = range_of(*strings, file_bytes_);
  }

  const int fd_;
  const std::uint64_t file_bytes_;
  const Elf64_Ehdr& header_;
  Headers headers_;
  std::string names_;
  Elf64_Shdr full_ = {}, dynamic_ = {};  // SHT_NULL: not seen
  ElfSections result_;
};

}  // namespace

absl::StatusOr<ElfSections> read_elf_sections(int fd, std::uint64_t file_bytes,
                                              const Elf64_Ehdr& header) {
  return Sections(fd, file_bytes, header).read();
}

}  // namespace memprofd
