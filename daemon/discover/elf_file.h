// Bounded reader of one ELF file: 64-bit little-endian, x86-64 or aarch64.
//
// The file is untrusted. Every table has a cap, every reference is checked, and
// the file is read with pread rather than mapped, so that a file that shrinks
// while it is read gives errors and not a SIGBUS. Addresses are the file's own
// (link-time); add the load bias for those in a process.
#pragma once

#include <gelf.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/util/shared_fd.h"

namespace memprofd {

struct ElfSegment {  // PT_LOAD
  std::uint64_t address = 0;
  std::uint64_t memory_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t file_size = 0;  // at most memory_size
  bool executable = false;
  bool writable = false;
};

struct ElfSymbol {
  std::uint64_t address = 0;
  std::uint64_t size = 0;  // 0 when the file does not say
};

struct ElfFunction {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::string_view name;  // lives as long as the ElfFile
};

// One SystemTap SDT probe. Addresses are already corrected for prelinking by
// the distance between .stapsdt.base and the base recorded in the note.
struct StapProbe {
  std::string provider;
  std::string name;
  std::string arguments;
  std::uint64_t location = 0;
  std::uint64_t semaphore = 0;  // 0: none
};

// Not thread-safe, except read(), offset_of() and segments().
class ElfFile {
 public:
  // display_name is what messages call the file. Errors: kFailedPrecondition
  // when it is not an ELF file of a supported kind, kDataLoss when it is
  // damaged, else what open() said.
  static absl::StatusOr<std::unique_ptr<ElfFile>> open(const std::string& path,
                                                       std::string display_name);
  static absl::StatusOr<std::unique_ptr<ElfFile>> from_fd(UniqueFd fd, std::string display_name);

  const std::string& display_name() const { return display_name_; }
  // The file itself, for who has to be sure that it is the one that was parsed.
  const SharedFd& descriptor() const { return fd_; }
  std::uint16_t machine() const { return machine_; }  // EM_X86_64 or EM_AARCH64
  bool position_independent() const { return position_independent_; }
  const std::vector<ElfSegment>& segments() const { return segments_; }
  // Whether there is a full symbol table (.symtab): the file is not stripped.
  bool has_symtab() const { return has_symtab_; }

  // A defined symbol of .dynsym or, failing that, .symtab.
  std::optional<ElfSymbol> find_symbol(std::string_view name) const;
  // All of names in one pass over each table, in their order.
  std::vector<std::optional<ElfSymbol>> find_symbols(std::span<const std::string_view> names) const;
  // Addresses of the defined symbols of .dynsym whose names are wanted.
  std::vector<std::uint64_t> dynamic_symbols(
      const std::function<bool(std::string_view)>& wanted) const;
  // The function symbol around an address, null when there is none. The first
  // call reads and sorts all function symbols.
  const ElfFunction* function_at(std::uint64_t address);
  std::vector<StapProbe> stap_probes() const;
  // Where a program (not a library) has a thread-local variable that find_symbol() found,
  // from the thread pointer: x86-64 puts them below it.
  std::optional<std::int64_t> thread_local_offset(const ElfSymbol& variable) const;

  // File offset of an address that has bytes in the file.
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const;
  // Bytes at an address; the zeros beyond the file's part of a segment (.bss)
  // included. Fails when the range is not inside one segment.
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const;
  // What to add to the file's addresses when an executable mapping of the file
  // starts at address `start` with file offset `offset`.
  std::optional<std::uint64_t> load_bias(std::uint64_t start, std::uint64_t end,
                                         std::uint64_t offset) const;

 private:
  struct ElfEnd {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  struct SymbolTable;

  ElfFile() = default;
  absl::Status load();
  absl::Status check_header();
  absl::Status load_segments();
  absl::Status add_segment(const GElf_Phdr& header);
  absl::Status damaged(std::string_view what) const;
  std::vector<SymbolTable> symbol_tables(std::span<const std::uint32_t> types = {}) const;
  void load_functions();

  SharedFd fd_;
  std::unique_ptr<Elf, ElfEnd> elf_;
  std::string display_name_;
  std::uint64_t file_bytes_ = 0;
  std::uint16_t machine_ = 0;
  bool position_independent_ = false;
  bool has_symtab_ = false;
  std::vector<ElfSegment> segments_;
  std::uint64_t tls_bytes_ = 0;         // aligned; 0: no thread-local variables
  std::vector<ElfFunction> functions_;  // sorted by address
  bool functions_loaded_ = false;
};

}  // namespace memprofd
