// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/relocated_file.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
// The OCaml compiler itself has 260,000 relocations.
constexpr std::uint64_t kMaxRelocations = 16'000'000;
constexpr std::size_t kMaxDynamicBytes = 64 << 10;

absl::StatusOr<std::vector<Elf64_Dyn>> dynamic_section(const ElfFile& file) {
  const int fd = file.descriptor()->get();
  Elf64_Ehdr header{};
  const auto damaged = [&file] {
    return absl::DataLossError(
        absl::StrCat(file.display_name(), ": the program headers cannot be read"));
  };
  if (::pread(fd, &header, sizeof header, 0) != sizeof header) return damaged();
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  const auto bytes = static_cast<ssize_t>(segments.size() * sizeof(Elf64_Phdr));
  if (::pread(fd, segments.data(), static_cast<std::size_t>(bytes),
              static_cast<off_t>(header.e_phoff)) != bytes) {
    return damaged();
  }
  const auto found = std::ranges::find(segments, std::uint32_t{PT_DYNAMIC}, &Elf64_Phdr::p_type);
  if (found == segments.end()) return std::vector<Elf64_Dyn>();
  if (found->p_filesz > kMaxDynamicBytes) return damaged();
  std::vector<Elf64_Dyn> entries(found->p_filesz / sizeof(Elf64_Dyn));
  RETURN_IF_ERROR(file.read(found->p_vaddr, std::as_writable_bytes(std::span(entries))));
  return entries;
}

}  // namespace

absl::StatusOr<RelocatedFile> RelocatedFile::open(const ElfFile& file, std::uint64_t load_bias) {
  RelocatedFile relocated(file, load_bias);
  RETURN_IF_ERROR(relocated.load());
  return relocated;
}

absl::Status RelocatedFile::load() {
  ASSIGN_OR_RETURN(const std::vector<Elf64_Dyn> dynamic, dynamic_section(*file_));
  std::uint64_t table = 0, bytes = 0;
  for (const Elf64_Dyn& entry : dynamic) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_RELA) table = entry.d_un.d_ptr;
    if (entry.d_tag == DT_RELASZ) bytes = entry.d_un.d_val;
  }
  if (bytes / sizeof(Elf64_Rela) > kMaxRelocations) {
    return absl::ResourceExhaustedError(
        absl::StrCat(file_->display_name(), ": has more than ", kMaxRelocations, " relocations"));
  }
  std::vector<Elf64_Rela> all(bytes / sizeof(Elf64_Rela));
  if (all.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(file_->read(table, std::as_writable_bytes(std::span(all))));
  for (const Elf64_Rela& one : all) {
    if (ELF64_R_TYPE(one.r_info) != R_X86_64_RELATIVE) continue;
    pointers_.push_back({one.r_offset, load_bias_ + static_cast<std::uint64_t>(one.r_addend)});
  }
  // Linkers write them by address, but need not; to sort millions takes seconds.
  if (!std::ranges::is_sorted(pointers_, {}, &Pointer::address)) {
    std::ranges::sort(pointers_, {}, &Pointer::address);
  }
  return absl::OkStatus();
}

absl::Status RelocatedFile::read(std::uint64_t address, std::span<std::byte> out) const {
  const std::uint64_t begin = address - load_bias_, end = begin + out.size();
  RETURN_IF_ERROR(file_->read(begin, out));
  // A pointer may begin before the range and reach into it.
  const std::uint64_t first = begin < kWord ? 0 : begin - kWord + 1;
  for (auto at = std::ranges::lower_bound(pointers_, first, {}, &Pointer::address);
       at != pointers_.end() && at->address < end; ++at) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&at->value);
    for (std::size_t i = 0; i < kWord; ++i) {
      const std::uint64_t to = at->address + i;
      if (to >= begin && to < end) out[to - begin] = bytes[i];
    }
  }
  return absl::OkStatus();
}

std::vector<Mapping> RelocatedFile::mappings() const {
  std::vector<Mapping> mappings;
  for (const ElfSegment& segment : file_->segments()) {
    mappings.push_back({.begin = segment.address + load_bias_,
                        .end = segment.address + load_bias_ + segment.memory_size,
                        .readable = true});
  }
  std::ranges::sort(mappings, {}, &Mapping::begin);
  return mappings;
}

}  // namespace memprofd
