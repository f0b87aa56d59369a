#include "daemon/discover/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::uint64_t kMaxTableBytes = 1ull << 30;  // a symbol or string table
constexpr std::size_t kMaxSegments = 256;
constexpr std::size_t kMaxSections = 65536;
constexpr std::size_t kMaxSymbols = 16u << 20;
constexpr std::size_t kMaxProbes = 65536;
constexpr std::size_t kMaxArguments = 4096;
constexpr std::uint64_t kMaxTlsBytes = 1ull << 30;

absl::Status pread_all(int fd, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, "read");
    if (n == 0) return absl::OutOfRangeError("file ends early");
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return absl::OkStatus();
}

// Sections are visited in order; fn returns false to stop.
template <typename Fn>
void for_each_section(Elf* elf, Fn fn) {
  std::size_t seen = 0;
  for (Elf_Scn* scn = nullptr; (scn = elf_nextscn(elf, scn)) != nullptr;) {
    GElf_Shdr header;
    if (++seen > kMaxSections || gelf_getshdr(scn, &header) == nullptr) return;
    if (!fn(scn, header)) return;
  }
}

// Null when the section has no data in the file or too much of it.
Elf_Data* section_data(Elf_Scn* scn, const GElf_Shdr& header) {
  if (header.sh_type == SHT_NOBITS || header.sh_size > kMaxTableBytes) return nullptr;
  Elf_Data* data = elf_getdata(scn, nullptr);
  return data != nullptr && data->d_buf != nullptr ? data : nullptr;
}

std::string_view section_name(Elf* elf, const GElf_Shdr& header) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return {};
  const char* name = elf_strptr(elf, names, header.sh_name);
  return name != nullptr ? name : "";
}

// What the thread-local variables of a program take; 0 when the header makes no sense.
std::uint64_t aligned_size(const GElf_Phdr& header) {
  const std::uint64_t align = std::max<std::uint64_t>(header.p_align, 1);
  if (header.p_memsz > kMaxTlsBytes || align > kMaxTlsBytes) return 0;
  return (header.p_memsz + align - 1) / align * align;
}

// A NUL-terminated string at the front of bytes, which is moved past it.
std::optional<std::string> take_string(std::string_view& bytes) {
  const std::size_t end = bytes.find('\0');
  if (end == std::string_view::npos || end > kMaxArguments) return std::nullopt;
  std::string result(bytes.substr(0, end));
  bytes.remove_prefix(end + 1);
  return result;
}

// The descriptor of a stapsdt note: three addresses, three strings.
std::optional<StapProbe> parse_stap_note(std::string_view bytes, std::uint64_t base_section) {
  std::uint64_t words[3];
  if (bytes.size() < sizeof words) return std::nullopt;
  std::memcpy(words, bytes.data(), sizeof words);
  bytes.remove_prefix(sizeof words);
  auto provider = take_string(bytes);
  auto name = provider ? take_string(bytes) : std::nullopt;
  auto arguments = name ? take_string(bytes) : std::nullopt;
  if (!arguments) return std::nullopt;
  const std::uint64_t moved = base_section != 0 ? base_section - words[1] : 0;
  return StapProbe{.provider = std::move(*provider),
                   .name = std::move(*name),
                   .arguments = std::move(*arguments),
                   .location = words[0] + moved,
                   .semaphore = words[2] == 0 ? 0 : words[2] + moved};
}

void collect_stap_notes(Elf_Data* data, std::uint64_t base_section, std::vector<StapProbe>& out) {
  GElf_Nhdr note;
  std::size_t name_offset = 0;
  std::size_t desc_offset = 0;
  const std::string_view bytes(static_cast<const char*>(data->d_buf), data->d_size);
  for (std::size_t at = 0; out.size() < kMaxProbes;) {
    const std::size_t next = gelf_getnote(data, at, &note, &name_offset, &desc_offset);
    if (next == 0 || next <= at) return;
    at = next;
    if (bytes.substr(name_offset, note.n_namesz) != std::string_view("stapsdt\0", 8)) continue;
    if (note.n_type != 3) continue;
    auto probe = parse_stap_note(bytes.substr(desc_offset, note.n_descsz), base_section);
    if (probe) out.push_back(std::move(*probe));
  }
}

}  // namespace

// One symbol table with its strings, both in memory.
struct ElfFile::SymbolTable {
  Elf_Data* symbols = nullptr;
  std::string_view strings;
  std::size_t count = 0;

  // Name and value of entry i; an undefined, unnamed or broken one has no name.
  std::string_view get(std::size_t i, GElf_Sym& symbol) const {
    if (gelf_getsym(symbols, static_cast<int>(i), &symbol) == nullptr) return {};
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= strings.size()) return {};
    const std::string_view rest = strings.substr(symbol.st_name);
    const std::size_t end = rest.find('\0');
    return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
  }
};

absl::StatusOr<std::unique_ptr<ElfFile>> ElfFile::open(const std::string& path,
                                                       std::string display_name) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd) return absl::ErrnoToStatus(errno, "cannot open " + display_name);
  return from_fd(std::move(fd), std::move(display_name));
}

absl::StatusOr<std::unique_ptr<ElfFile>> ElfFile::from_fd(UniqueFd fd, std::string display_name) {
  std::unique_ptr<ElfFile> file(new ElfFile);
  file->fd_ = std::make_shared<const UniqueFd>(std::move(fd));
  file->display_name_ = std::move(display_name);
  if (absl::Status status = file->load(); !status.ok()) return status;
  return file;
}

absl::Status ElfFile::damaged(std::string_view what) const {
  return absl::DataLossError(fmt::format("{} is a damaged ELF file: {}", display_name_, what));
}

absl::Status ElfFile::load() {
  struct stat st = {};
  if (::fstat(fd_->get(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return absl::FailedPreconditionError(display_name_ + " is not a regular file");
  }
  file_bytes_ = static_cast<std::uint64_t>(st.st_size);
  if (absl::Status status = check_header(); !status.ok()) return status;
  if (elf_version(EV_CURRENT) == EV_NONE) return absl::InternalError("libelf is too old");
  elf_.reset(elf_begin(fd_->get(), ELF_C_READ, nullptr));
  if (elf_ == nullptr || elf_kind(elf_.get()) != ELF_K_ELF) return damaged("header");
  for_each_section(elf_.get(), [&](Elf_Scn*, const GElf_Shdr& header) {
    has_symtab_ |= header.sh_type == SHT_SYMTAB;
    return !has_symtab_;
  });
  return load_segments();
}

absl::Status ElfFile::check_header() {
  Elf64_Ehdr header = {};
  const auto refuse = [&](std::string_view why) {
    return absl::FailedPreconditionError(fmt::format("{} {}", display_name_, why));
  };
  const auto bytes = std::as_writable_bytes(std::span(&header, 1));
  if (file_bytes_ < EI_NIDENT || !pread_all(fd_->get(), 0, bytes.first(EI_NIDENT)).ok() ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return refuse("is not an ELF file");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return refuse("is a 32-bit program; only 64-bit ones are supported");
  }
  if (!pread_all(fd_->get(), 0, bytes).ok()) return damaged("it ends inside the header");
  machine_ = header.e_machine;
  if (header.e_ident[EI_DATA] != ELFDATA2LSB || (machine_ != EM_X86_64 && machine_ != EM_AARCH64)) {
    return refuse(
        fmt::format("is for ELF machine {}; only x86-64 and aarch64 are known", machine_));
  }
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
    return refuse("is neither a program nor a shared library");
  }
  position_independent_ = header.e_type == ET_DYN;
  return absl::OkStatus();
}

absl::Status ElfFile::load_segments() {
  std::size_t count = 0;
  if (elf_getphdrnum(elf_.get(), &count) != 0) return damaged("program headers");
  for (std::size_t i = 0; i < std::min(count, kMaxSegments); ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf_.get(), static_cast<int>(i), &header) == nullptr) {
      return damaged("program headers");
    }
    if (header.p_type == PT_TLS) tls_bytes_ = aligned_size(header);
    if (header.p_type != PT_LOAD) continue;
    RETURN_IF_ERROR(add_segment(header));
  }
  if (segments_.empty()) return damaged("it has no loadable segment");
  return absl::OkStatus();
}

absl::Status ElfFile::add_segment(const GElf_Phdr& header) {
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

std::optional<std::int64_t> ElfFile::thread_local_offset(const ElfSymbol& variable) const {
  if (machine_ != EM_X86_64 || variable.address >= tls_bytes_) return std::nullopt;
  return static_cast<std::int64_t>(variable.address) - static_cast<std::int64_t>(tls_bytes_);
}

std::vector<ElfFile::SymbolTable> ElfFile::symbol_tables(
    std::span<const std::uint32_t> types) const {
  static constexpr std::uint32_t kBoth[] = {SHT_DYNSYM, SHT_SYMTAB};
  std::vector<SymbolTable> tables;
  for (const GElf_Word type : types.empty() ? std::span(kBoth) : types) {
    for_each_section(elf_.get(), [&](Elf_Scn* scn, const GElf_Shdr& header) {
      if (header.sh_type != type) return true;
      Elf_Data* symbols = section_data(scn, header);
      Elf_Scn* string_section = elf_getscn(elf_.get(), header.sh_link);
      GElf_Shdr string_header;
      if (symbols == nullptr || string_section == nullptr ||
          gelf_getshdr(string_section, &string_header) == nullptr) {
        return false;
      }
      Elf_Data* strings = section_data(string_section, string_header);
      if (strings == nullptr) return false;
      tables.push_back({.symbols = symbols,
                        .strings = {static_cast<const char*>(strings->d_buf), strings->d_size},
                        .count = std::min(symbols->d_size / sizeof(Elf64_Sym), kMaxSymbols)});
      return false;  // at most one table of a kind
    });
  }
  return tables;
}

std::optional<ElfSymbol> ElfFile::find_symbol(std::string_view name) const {
  return find_symbols(std::span(&name, 1)).front();
}

std::vector<std::optional<ElfSymbol>> ElfFile::find_symbols(
    std::span<const std::string_view> names) const {
  std::vector<std::optional<ElfSymbol>> found(names.size());
  std::size_t missing = names.size();
  GElf_Sym symbol;
  for (const SymbolTable& table : symbol_tables()) {
    for (std::size_t i = 0; i < table.count && missing > 0; ++i) {
      const std::string_view name = table.get(i, symbol);
      if (name.empty()) continue;
      for (std::size_t k = 0; k < names.size(); ++k) {
        if (found[k] || name != names[k]) continue;
        found[k] = ElfSymbol{.address = symbol.st_value, .size = symbol.st_size};
        --missing;
      }
    }
  }
  return found;
}

std::vector<std::uint64_t> ElfFile::dynamic_symbols(
    const std::function<bool(std::string_view)>& wanted) const {
  static constexpr std::uint32_t kDynamic[] = {SHT_DYNSYM};
  std::vector<std::uint64_t> addresses;
  GElf_Sym symbol;
  for (const SymbolTable& table : symbol_tables(kDynamic)) {
    for (std::size_t i = 0; i < table.count; ++i) {
      const std::string_view name = table.get(i, symbol);
      if (!name.empty() && wanted(name)) addresses.push_back(symbol.st_value);
    }
  }
  return addresses;
}

void ElfFile::load_functions() {
  functions_loaded_ = true;
  GElf_Sym symbol;
  for (const SymbolTable& table : symbol_tables()) {
    for (std::size_t i = 0; i < table.count; ++i) {
      const std::string_view name = table.get(i, symbol);
      if (name.empty() || GELF_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      functions_.push_back({symbol.st_value, symbol.st_size, name});
    }
  }
  std::stable_sort(functions_.begin(), functions_.end(),
                   [](const auto& a, const auto& b) { return a.address < b.address; });
  const auto same = [](const auto& a, const auto& b) { return a.address == b.address; };
  functions_.erase(std::unique(functions_.begin(), functions_.end(), same), functions_.end());
}

const ElfFunction* ElfFile::function_at(std::uint64_t address) {
  if (!functions_loaded_) load_functions();
  auto after = std::upper_bound(functions_.begin(), functions_.end(), address,
                                [](std::uint64_t a, const auto& f) { return a < f.address; });
  if (after == functions_.begin()) return nullptr;
  const ElfFunction& function = *std::prev(after);
  // Assembly functions often come without a size: up to the end of the segment.
  std::uint64_t size = function.size;
  for (const ElfSegment& segment : segments_) {
    const std::uint64_t into = function.address - segment.address;
    if (function.size == 0 && into < segment.memory_size) size = segment.memory_size - into;
  }
  return address - function.address < size ? &function : nullptr;
}

std::vector<StapProbe> ElfFile::stap_probes() const {
  std::uint64_t base_section = 0;
  std::vector<Elf_Data*> notes;
  for_each_section(elf_.get(), [&](Elf_Scn* scn, const GElf_Shdr& header) {
    const std::string_view name = section_name(elf_.get(), header);
    if (name == ".stapsdt.base") base_section = header.sh_addr;
    if (name == ".note.stapsdt" && header.sh_type == SHT_NOTE) {
      if (Elf_Data* data = section_data(scn, header)) notes.push_back(data);
    }
    return true;
  });
  std::vector<StapProbe> probes;
  for (Elf_Data* data : notes) collect_stap_notes(data, base_section, probes);
  return probes;
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
    return pread_all(fd_->get(), segment.offset + begin, from_file);
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
