// SPDX-License-Identifier: Apache-2.0
#include "daemon/discover/elf_symbols.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "daemon/util/read_at.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::size_t kSymbolsAtOnce = 2048;

// The string up to its NUL; empty if it has none.
std::string_view first_string(std::string_view bytes) {
  const std::size_t end = bytes.substr(0, kMaxSymbolName + 1).find('\0');
  return end == std::string_view::npos ? std::string_view() : bytes.substr(0, end);
}

}  // namespace

void for_each_symbol(int fd, const FileRange& symbols,
                     const std::function<bool(const Elf64_Sym&, std::uint32_t)>& fn) {
  std::array<Elf64_Sym, kSymbolsAtOnce> piece;
  const std::uint64_t count = std::min(symbols.size / sizeof(Elf64_Sym), kMaxElfSymbols);
  for (std::uint64_t at = 0; at < count; at += kSymbolsAtOnce) {
    const auto some = std::span(piece).first(std::min<std::uint64_t>(kSymbolsAtOnce, count - at));
    const std::uint64_t from = symbols.offset + at * sizeof(Elf64_Sym);
    if (!read_at(fd, from, std::as_writable_bytes(some)).ok()) return;
    auto index = static_cast<std::uint32_t>(at);
    for (const Elf64_Sym& symbol : some) {
      const bool named = symbol.st_shndx != SHN_UNDEF && symbol.st_name != 0;
      if (named && !fn(symbol, index)) return;
      ++index;
    }
  }
}

absl::StatusOr<ElfStrings> ElfStrings::load(int fd, const FileRange& strings, SharedBudget budget) {
  ElfStrings result;
  result.charge_ = ByteCharge(std::move(budget));
  if (!result.charge_.grow(strings.size)) {
    return absl::ResourceExhaustedError(over_budget("the names of its symbols", strings.size));
  }
  result.bytes_ = std::make_unique_for_overwrite<char[]>(strings.size);
  result.size_ = strings.size;
  const std::span bytes(result.bytes_.get(), result.size_);
  RETURN_IF_ERROR(read_at(fd, strings.offset, std::as_writable_bytes(bytes)));
  return result;
}

bool ElfStrings::is(std::uint64_t offset, std::string_view text) const {
  if (offset >= size_ || text.size() >= size_ - offset) return false;
  const std::string_view here(bytes_.get() + offset, text.size() + 1);
  return here.starts_with(text) && here.back() == '\0';
}

std::string_view ElfStrings::at(std::uint64_t offset) const {
  if (offset >= size_) return {};
  return first_string({bytes_.get() + offset, size_ - offset});
}

std::string string_at(int fd, const FileRange& strings, std::uint64_t offset) {
  if (offset >= strings.size) return "";
  std::string bytes(std::min<std::uint64_t>(kMaxSymbolName + 1, strings.size - offset), '\0');
  const auto out = std::as_writable_bytes(std::span(bytes));
  if (!read_at(fd, strings.offset + offset, out).ok()) return "";
  return std::string(first_string(bytes));
}

}  // namespace memprofd
