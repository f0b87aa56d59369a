// SPDX-License-Identifier: Apache-2.0
// Bounded reader of one ELF file: 64-bit little-endian, x86-64 or aarch64.
//
// The file is untrusted: every table has a cap, every reference is checked, and the data that is
// kept is charged to a budget. The file is read with pread rather than mapped, so that a file that
// shrinks meanwhile causes errors, not a SIGBUS. Addresses are the file's own (link-time); add the
// load bias for those in a process.
#pragma once

#include <elf.h>

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
#include "daemon/discover/elf_sections.h"
#include "daemon/discover/elf_symbols.h"
#include "daemon/discover/stap_notes.h"
#include "daemon/util/byte_budget.h"
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
  std::uint64_t size = 0;  // 0 if the file does not contain it
};

struct ElfFunction {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::string name;
};

// Not thread-safe, except read(), offset_of() and segments().
class ElfFile {
 public:
  // display_name names the file in messages; budget is that of its target, null: one of its own.
  // Errors: kFailedPrecondition if it is not an ELF file of a supported kind, kDataLoss if it is
  // damaged, otherwise that of open().
  static absl::StatusOr<std::unique_ptr<ElfFile>> open(const std::string& path,
                                                       std::string display_name,
                                                       SharedBudget budget = nullptr);
  static absl::StatusOr<std::unique_ptr<ElfFile>> from_fd(UniqueFd fd, std::string display_name,
                                                          SharedBudget budget = nullptr);
  static absl::StatusOr<std::unique_ptr<ElfFile>> from_fd(SharedFd fd, std::string display_name,
                                                          SharedBudget budget = nullptr);

  const std::string& display_name() const { return display_name_; }
  // The open file, to be sure that it is the one that was parsed.
  const SharedFd& descriptor() const { return fd_; }
  std::uint16_t machine() const { return machine_; }  // EM_X86_64 or EM_AARCH64
  const std::vector<ElfSegment>& segments() const { return segments_; }
  // The GNU build id in lower-case hex; empty: the file has none.
  const std::string& build_id() const { return build_id_; }
  // True if there is a full symbol table (.symtab): the file is not stripped.
  bool has_symtab() const { return !sections_.full.symbols.empty(); }
  // Why symbols or probes of the file may not have been found, one line; empty: everything that was
  // requested was examined.
  const std::string& why_incomplete() const { return why_incomplete_; }

  // A defined symbol of .dynsym or, failing that, .symtab.
  std::optional<ElfSymbol> find_symbol(std::string_view name) const;
  // Finds all names in one pass over each table and returns them in the order of names.
  std::vector<std::optional<ElfSymbol>> find_symbols(std::span<const std::string_view> names) const;
  // Addresses of the defined symbols of .dynsym whose names are wanted.
  std::vector<std::uint64_t> dynamic_symbols(
      const std::function<bool(std::string_view)>& wanted) const;
  // The function symbol around an address. The first call reads and sorts all function
  // symbols, without their names.
  std::optional<ElfFunction> function_at(std::uint64_t address);
  // Calls fn for each function symbol by address, one per address; names are read at once, as long
  // as there is room for them (why_incomplete()).
  void for_each_function(const std::function<void(const ElfFunction&)>& fn);
  std::vector<StapProbe> stap_probes() const;
  // Offset from the thread pointer of a program's (not a library's) thread-local variable that
  // find_symbol() found; x86-64 places them below it.
  std::optional<std::int64_t> thread_local_offset(const ElfSymbol& variable) const;

  // File offset of an address that has bytes in the file.
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const;
  // Reads bytes at an address, including the zeros beyond the file's part of a segment (.bss).
  // Fails if the range is not inside one segment.
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const;
  // Difference between addresses in the process and in the file, for an executable mapping of the
  // file that starts at address `start` with file offset `offset`.
  std::optional<std::uint64_t> load_bias(std::uint64_t start, std::uint64_t end,
                                         std::uint64_t offset) const;

 private:
  struct Function {
    std::uint64_t address;
    std::uint64_t size;
    std::uint32_t name;   // offset among the strings of its table
    std::uint32_t order;  // index in its table; those of .symtab have the highest bit
  };

  ElfFile() = default;
  absl::Status load();
  absl::Status check_header(Elf64_Ehdr& header);
  absl::Status load_segments(const Elf64_Ehdr& header);
  absl::Status add_segment(const Elf64_Phdr& header);
  void read_build_id(const Elf64_Phdr& notes);
  absl::Status damaged(std::string_view what) const;
  void note_incomplete(std::string_view what) const;
  std::optional<ElfStrings> names_of(const ElfSymbolTable& table) const;
  bool find_in(const ElfSymbolTable& table, std::span<const std::string_view> names,
               std::vector<std::optional<ElfSymbol>>& found) const;
  void load_functions();
  void load_functions(const ElfSymbolTable& table, std::uint32_t order);
  bool make_room_for_functions();
  std::optional<ElfFunction> named(const Function& function) const;

  SharedFd fd_;
  SharedBudget budget_;
  std::string display_name_;
  std::uint64_t file_bytes_ = 0;
  std::uint16_t machine_ = 0;
  ElfSections sections_;
  std::vector<ElfSegment> segments_;
  std::string build_id_;
  std::uint64_t tls_bytes_ = 0;  // aligned; 0: no thread-local variables
  mutable std::string why_incomplete_;
  std::vector<Function> functions_;  // sorted by address
  ByteCharge functions_charge_;
  bool functions_loaded_ = false;
};

}  // namespace memprofd
