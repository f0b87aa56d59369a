// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/elf_file.h"

#include <elf.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "daemon/util/read_at.h"
#include "daemon/util/regular_file.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/units.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxSegments = 256;
constexpr std::size_t kMaxFound = 65536;            // maximum number of matching symbols
constexpr std::uint64_t kMaxNoteBytes = 64u << 10;  // maximum read of one segment of notes
constexpr std::uint64_t kMaxBuildIdBytes = 64;
constexpr std::uint64_t kMaxTlsBytes = 1ull << 30;
constexpr std::uint32_t kOfSymtab = 1u << 31;

// Size of a program's thread-local variables; 0 if the header is invalid.
std::uint64_t aligned_size(const Elf64_Phdr& header) {
  const std::uint64_t align = std::max<std::uint64_t>(header.p_align, 1);
  if (header.p_memsz > kMaxTlsBytes || align > kMaxTlsBytes) return 0;
  return (header.p_memsz + align - 1) / align * align;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ElfFile>> ElfFile::open(const std::string& path,
                                                       std::string display_name,
                                                       SharedBudget budget) {
  ASSIGN_OR_RETURN(UniqueFd fd, open_regular_file(path, display_name));
  return from_fd(std::move(fd), std::move(display_name), std::move(budget));
}

absl::StatusOr<std::unique_ptr<ElfFile>> ElfFile::from_fd(UniqueFd fd, std::string display_name,
                                                          SharedBudget budget) {
  return from_fd(std::make_shared<const UniqueFd>(std::move(fd)), std::move(display_name),
                 std::move(budget));
}

absl::StatusOr<std::unique_ptr<ElfFile>> ElfFile::from_fd(SharedFd fd, std::string display_name,
                                                          SharedBudget budget) {
  std::unique_ptr<ElfFile> file(new ElfFile);
  file->fd_ = std::move(fd);
  file->budget_ = budget != nullptr ? std::move(budget) : ByteBudget::for_target();
  file->functions_charge_ = ByteCharge(file->budget_);
  file->display_name_ = std::move(display_name);
  if (absl::Status status = file->load(); !status.ok()) return status;
  return file;
}

absl::Status ElfFile::damaged(std::string_view what) const {
  return absl::DataLossError(fmt::format("{} is a damaged ELF file: {}", display_name_, what));
}

// Records the first reason only; it is enough to show that something is missing.
void ElfFile::note_incomplete(std::string_view what) const {
  if (why_incomplete_.empty()) why_incomplete_ = fmt::format("{}: {}", display_name_, what);
}

absl::Status ElfFile::load() {
  struct stat st = {};
  if (::fstat(fd_->get(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return absl::FailedPreconditionError(display_name_ + " is not a regular file");
  }
  file_bytes_ = static_cast<std::uint64_t>(st.st_size);
  Elf64_Ehdr header = {};
  RETURN_IF_ERROR(check_header(header));
  absl::StatusOr<ElfSections> sections = read_elf_sections(fd_->get(), file_bytes_, header);
  if (!sections.ok()) {
    return absl::Status(
        sections.status().code(),
        fmt::format("{} {}", display_name_, std::string(sections.status().message())));
  }
  sections_ = *sections;
  return load_segments(header);
}

absl::Status ElfFile::check_header(Elf64_Ehdr& header) {
  const auto refuse = [&](std::string_view why) {
    return absl::FailedPreconditionError(fmt::format("{} {}", display_name_, why));
  };
  const auto bytes = std::as_writable_bytes(std::span(&header, 1));
  if (file_bytes_ < EI_NIDENT || !read_at(fd_->get(), 0, bytes.first(EI_NIDENT)).ok() ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return refuse("is not an ELF file");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return refuse("is a 32-bit program; only 64-bit ones are supported");
  }
  if (!read_at(fd_->get(), 0, bytes).ok()) return damaged("it ends inside the header");
  machine_ = header.e_machine;
  if (header.e_ident[EI_DATA] != ELFDATA2LSB || (machine_ != EM_X86_64 && machine_ != EM_AARCH64)) {
    return refuse(
        fmt::format("is for ELF machine {}; only x86-64 and aarch64 are known", machine_));
  }
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
    return refuse("is neither a program nor a shared library");
  }
  return absl::OkStatus();
}

absl::Status ElfFile::load_segments(const Elf64_Ehdr& header) {
  std::vector<Elf64_Phdr> headers(std::min<std::size_t>(header.e_phnum, kMaxSegments));
  if ((!headers.empty() && header.e_phentsize != sizeof(Elf64_Phdr)) ||
      !read_at(fd_->get(), header.e_phoff, std::as_writable_bytes(std::span(headers))).ok()) {
    return damaged("program headers");
  }
  for (const Elf64_Phdr& segment : headers) {
    if (segment.p_type == PT_NOTE) read_build_id(segment);
    if (segment.p_type == PT_TLS) tls_bytes_ = aligned_size(segment);
    if (segment.p_type != PT_LOAD) continue;
    RETURN_IF_ERROR(add_segment(segment));
  }
  if (segments_.empty()) return damaged("it has no loadable segment");
  return absl::OkStatus();
}

absl::Status ElfFile::add_segment(const Elf64_Phdr& header) {
  if (header.p_filesz > header.p_memsz || header.p_vaddr + header.p_memsz < header.p_vaddr ||
      header.p_offset + header.p_filesz < header.p_offset) {
    return damaged("segment bounds");
  }
  segments_.push_back({.address = header.p_vaddr,
                       .memory_size = header.p_memsz,
                       .offset = header.p_offset,
                       .file_size = header.p_filesz,
                       .executable = (header.p_flags & PF_X) != 0,
                       .writable = (header.p_flags & PF_W) != 0});
  return absl::OkStatus();
}

// Leaves the build id empty if the notes are damaged, because it only names the file.
void ElfFile::read_build_id(const Elf64_Phdr& notes) {
  if (!build_id_.empty() || notes.p_filesz > kMaxNoteBytes) return;
  std::string data(notes.p_filesz, '\0');
  if (!read_at(fd_->get(), notes.p_offset, std::as_writable_bytes(std::span(data))).ok()) return;
  const std::uint64_t align = notes.p_align == 8 ? 8 : 4;
  const auto aligned = [&](std::uint64_t bytes) { return (bytes + align - 1) / align * align; };
  constexpr std::string_view kGnu("GNU\0", 4);
  Elf64_Nhdr note = {};
  for (std::uint64_t at = 0; data.size() - at >= sizeof note;) {
    std::memcpy(&note, data.data() + at, sizeof note);
    const std::uint64_t name = at + sizeof note;
    const std::uint64_t id = at + aligned(sizeof note + note.n_namesz);
    if (id + note.n_descsz > data.size()) return;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= kMaxBuildIdBytes &&
        std::string_view(data).substr(name, note.n_namesz) == kGnu) {
      build_id_ = absl::BytesToHexString(data.substr(id, note.n_descsz));
      return;
    }
    at = id + aligned(note.n_descsz);
    if (at > data.size()) return;
  }
}

std::optional<std::int64_t> ElfFile::thread_local_offset(const ElfSymbol& variable) const {
  if (machine_ != EM_X86_64 || variable.address >= tls_bytes_) return std::nullopt;
  return static_cast<std::int64_t>(variable.address) - static_cast<std::int64_t>(tls_bytes_);
}

std::optional<ElfSymbol> ElfFile::find_symbol(std::string_view name) const {
  return find_symbols(std::span(&name, 1)).front();
}

std::vector<std::optional<ElfSymbol>> ElfFile::find_symbols(
    std::span<const std::string_view> names) const {
  std::vector<std::optional<ElfSymbol>> found(names.size());
  if (!find_in(sections_.dynamic, names, found)) find_in(sections_.full, names, found);
  return found;
}

std::optional<ElfStrings> ElfFile::names_of(const ElfSymbolTable& table) const {
  const std::uint64_t count = table.symbols.size / sizeof(Elf64_Sym);
  if (count > kMaxElfSymbols) {
    note_incomplete(fmt::format("only {} of its {} symbols are read", format_count(kMaxElfSymbols),
                                format_count(count)));
  }
  absl::StatusOr<ElfStrings> strings = ElfStrings::load(fd_->get(), table.strings, budget_);
  if (absl::IsResourceExhausted(strings.status())) {
    note_incomplete(std::string(strings.status().message()));
    budget_->count_refused(std::min(count, kMaxElfSymbols));
  }
  return strings.ok() ? std::optional(*std::move(strings)) : std::nullopt;
}

// Returns true if all names have been found.
bool ElfFile::find_in(const ElfSymbolTable& table, std::span<const std::string_view> names,
                      std::vector<std::optional<ElfSymbol>>& found) const {
  auto missing = std::count(found.begin(), found.end(), std::nullopt);
  if (missing == 0 || table.symbols.empty()) return missing == 0;
  const auto strings = names_of(table);
  if (!strings) return false;
  for_each_symbol(fd_->get(), table.symbols, [&](const Elf64_Sym& symbol, std::uint32_t) {
    for (std::size_t k = 0; k < names.size(); ++k) {
      if (found[k] || names[k].empty() || !strings->is(symbol.st_name, names[k])) continue;
      found[k] = ElfSymbol{.address = symbol.st_value, .size = symbol.st_size};
      --missing;
    }
    return missing > 0;
  });
  return missing == 0;
}

std::vector<std::uint64_t> ElfFile::dynamic_symbols(
    const std::function<bool(std::string_view)>& wanted) const {
  std::vector<std::uint64_t> addresses;
  if (sections_.dynamic.symbols.empty()) return addresses;
  const auto strings = names_of(sections_.dynamic);
  if (!strings) return addresses;
  for_each_symbol(fd_->get(), sections_.dynamic.symbols, [&](const Elf64_Sym& symbol, auto) {
    const std::string_view name = strings->at(symbol.st_name);
    if (!name.empty() && wanted(name)) addresses.push_back(symbol.st_value);
    if (addresses.size() < kMaxFound) return true;
    note_incomplete(fmt::format("only {} of its symbols are read", format_count(kMaxFound)));
    return false;
  });
  return addresses;
}

// Charges for both copies of the vector while it grows by half.
bool ElfFile::make_room_for_functions() {
  constexpr std::size_t kFirst = 1024;
  const std::size_t now = functions_.capacity();
  if (functions_.size() < now) return true;
  const std::size_t next = now + std::max(now / 2, kFirst);
  if (!functions_charge_.grow(next * sizeof(Function))) return false;
  functions_.reserve(next);
  functions_charge_.shrink_to(next * sizeof(Function));
  return true;
}

void ElfFile::load_functions(const ElfSymbolTable& table, std::uint32_t order) {
  std::uint64_t refused = 0;
  for_each_symbol(fd_->get(), table.symbols, [&](const Elf64_Sym& symbol, std::uint32_t index) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= table.strings.size) {
      return true;
    }
    if (!make_room_for_functions()) {
      note_incomplete(over_budget("its functions", table.symbols.size));
      ++refused;
      return true;
    }
    functions_.push_back({.address = symbol.st_value,
                          .size = symbol.st_size,
                          .name = symbol.st_name,
                          .order = order | index});
    return true;
  });
  budget_->count_refused(refused);
}

// Keeps one symbol per address: the first one of .dynsym, or else the first one of .symtab.
void ElfFile::load_functions() {
  functions_loaded_ = true;
  load_functions(sections_.dynamic, 0);
  load_functions(sections_.full, kOfSymtab);
  std::sort(functions_.begin(), functions_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.address, a.order) < std::pair(b.address, b.order);
  });
  const auto same = [](const auto& a, const auto& b) { return a.address == b.address; };
  functions_.erase(std::unique(functions_.begin(), functions_.end(), same), functions_.end());
}

std::optional<ElfFunction> ElfFile::named(const Function& function) const {
  const auto& table = (function.order & kOfSymtab) != 0 ? sections_.full : sections_.dynamic;
  std::string name = string_at(fd_->get(), table.strings, function.name);
  if (name.empty()) return std::nullopt;
  return ElfFunction{.address = function.address, .size = function.size, .name = std::move(name)};
}

std::optional<ElfFunction> ElfFile::function_at(std::uint64_t address) {
  if (!functions_loaded_) load_functions();
  auto after = std::upper_bound(functions_.begin(), functions_.end(), address,
                                [](std::uint64_t a, const auto& f) { return a < f.address; });
  if (after == functions_.begin()) return std::nullopt;
  const Function& function = *std::prev(after);
  // A function without a size, common in assembly, extends to the end of its segment.
  std::uint64_t size = function.size;
  for (const ElfSegment& segment : segments_) {
    const std::uint64_t into = function.address - segment.address;
    if (function.size == 0 && into < segment.memory_size) size = segment.memory_size - into;
  }
  return address - function.address < size ? named(function) : std::nullopt;
}

void ElfFile::for_each_function(const std::function<void(const ElfFunction&)>& fn) {
  if (!functions_loaded_) load_functions();
  const auto dynamic = names_of(sections_.dynamic);
  const auto full = names_of(sections_.full);
  for (const Function& function : functions_) {
    const auto& names = (function.order & kOfSymtab) != 0 ? full : dynamic;
    const std::string_view name = names ? names->at(function.name) : std::string_view();
    if (name.empty()) continue;
    fn({.address = function.address, .size = function.size, .name = std::string(name)});
  }
}

std::vector<StapProbe> ElfFile::stap_probes() const {
  constexpr std::uint64_t kMaxBytes = 4u << 20;  // a database has about 50 KB
  std::string notes(std::min(sections_.probes.size, kMaxBytes), '\0');
  if (notes.size() < sections_.probes.size) {
    note_incomplete(fmt::format("only {} of its probes are read", format_bytes(kMaxBytes)));
  }
  const auto bytes = std::as_writable_bytes(std::span(notes));
  if (!read_at(fd_->get(), sections_.probes.offset, bytes).ok()) return {};
  return parse_stap_notes(notes, sections_.probe_base);
}

std::optional<std::uint64_t> ElfFile::offset_of(std::uint64_t address) const {
  for (const ElfSegment& segment : segments_) {
    if (address >= segment.address && address - segment.address < segment.file_size) {
      return segment.offset + (address - segment.address);
    }
  }
  return std::nullopt;
}

absl::Status ElfFile::read(std::uint64_t address, std::span<std::byte> out) const {
  for (const ElfSegment& segment : segments_) {
    if (address < segment.address || address - segment.address >= segment.memory_size) continue;
    const std::uint64_t begin = address - segment.address;
    if (out.size() > segment.memory_size - begin) break;
    const std::uint64_t in_file = begin < segment.file_size ? segment.file_size - begin : 0;
    const auto from_file = out.first(std::min<std::uint64_t>(in_file, out.size()));
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(from_file.size()), out.end(), std::byte{0});
    return read_at(fd_->get(), segment.offset + begin, from_file);
  }
  return absl::OutOfRangeError(
      fmt::format("no segment of {} holds address {:#x}", display_name_, address));
}

std::optional<std::uint64_t> ElfFile::load_bias(std::uint64_t start, std::uint64_t end,
                                                std::uint64_t offset) const {
  for (const ElfSegment& segment : segments_) {
    if (!segment.executable || segment.offset < offset) continue;
    const std::uint64_t into = segment.offset - offset;
    if (into >= end - start) continue;
    return start + into - segment.address;
  }
  return std::nullopt;
}

}  // namespace memprofd
