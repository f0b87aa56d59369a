// SPDX-License-Identifier: Apache-2.0
// Symbol tables of an untrusted ELF file. Symbols are read piece by piece. Their names are in
// memory only during a search by name, and charged to a budget meanwhile.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/discover/elf_sections.h"
#include "daemon/util/byte_budget.h"

namespace memprofd {

// Symbols read from one table: far more than any program has.
inline constexpr std::uint64_t kMaxElfSymbols = 4u << 20;
// Bytes of a symbol's name; one with a longer name does not count.
inline constexpr std::size_t kMaxSymbolName = 4096;

// Calls fn with each defined symbol that has a name, and its index. fn returns false to stop.
void for_each_symbol(int fd, const FileRange& symbols,
                     const std::function<bool(const Elf64_Sym&, std::uint32_t)>& fn);

class ElfStrings {
 public:
  // kResourceExhausted, one line: they do not fit.
  static absl::StatusOr<ElfStrings> load(int fd, const FileRange& strings, SharedBudget budget);

  // True if the string at the offset is text.
  bool is(std::uint64_t offset, std::string_view text) const;
  // The string at the offset; empty if there is none.
  std::string_view at(std::uint64_t offset) const;

 private:
  ByteCharge charge_;
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
};

// Reads one string without loading the others; empty if it is invalid.
std::string string_at(int fd, const FileRange& strings, std::uint64_t offset);

}  // namespace memprofd
