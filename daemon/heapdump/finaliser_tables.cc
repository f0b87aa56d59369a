// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/finaliser_tables.h"

#include <optional>

#include "daemon/snapshot/block_header.h"
#include "daemon/snapshot/heap_layout.h"

namespace memprofd {
namespace {

// struct finalisable of runtime/finalise.c: the table, the number of old entries, of all entries,
// and of slots. Each entry is a function, a value and an offset.
constexpr std::uint64_t kEntryBytes = 24;
constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 32;
// OCaml 5's struct caml_final_info: the first table, a flag, the last table.
constexpr std::uint64_t kLastInInfo = 40;

struct Table {
  std::uint64_t entries;
  std::uint64_t old;
  std::uint64_t all;
  std::uint64_t room;
};

std::optional<Table> table_at(const MemoryReader& memory, std::uint64_t address) {
  Table table{};
  if (address == 0 || !memory.read_value(address, table).ok()) return std::nullopt;
  const bool adds_up = table.old <= table.all && table.all <= table.room &&
                       table.room <= kMaxEntries && table.entries % kWordBytes == 0 &&
                       (table.entries == 0) == (table.room == 0);
  return adds_up ? std::optional(table) : std::nullopt;
}

}  // namespace

FinaliserTables::OfDomain FinaliserTables::read_tables(const MemoryReader& memory,
                                                       std::uint64_t first, std::uint64_t last) {
  const auto tables = std::array{table_at(memory, first), table_at(memory, last)};
  if (!tables[0] || !tables[1]) return {};
  const auto range = [](const Table& table) {
    return Range{table.entries, table.entries + table.all * kEntryBytes};
  };
  return {range(*tables[0]), range(*tables[1]), true};
}

FinaliserAddresses find_finalisers(const ElfFile& program, std::uint64_t load_bias) {
  static constexpr std::string_view kNames[] = {"caml_final_register",
                                                "caml_final_register_called_without_value"};
  const auto found = program.find_symbols(kNames);
  // Each of these functions passes its table to a common one.
  const auto table = [&](const std::optional<ElfSymbol>& function) -> std::uint64_t {
    std::array<std::byte, 32> code = {};
    if (!function || !program.read(function->address, code).ok()) return 0;
    const auto addresses = decode_data_addresses(code, function->address);
    return addresses.empty() ? 0 : load_bias + addresses[0];
  };
  return {table(found[0]), table(found[1])};
}

FinaliserTables FinaliserTables::read(const MemoryReader& memory, const RuntimeAbi& abi,
                                      const FinaliserAddresses& addresses,
                                      std::span<const std::uint64_t> states) {
  FinaliserTables found;
  for (const std::uint64_t state : states) {
    if (!abi.domains) {
      found.domains_.push_back(read_tables(memory, addresses.first, addresses.last));
      continue;
    }
    std::uint64_t info = 0;
    (void)memory.read_value(state + abi.finalisers, info);
    found.domains_.push_back(info == 0 ? OfDomain{}
                                       : read_tables(memory, info, info + kLastInInfo));
  }
  return found;
}

std::string_view FinaliserTables::kind_of(std::size_t domain, std::uint64_t slot) const {
  if (domain >= domains_.size() || !domains_[domain].is_known) return "";
  if (domains_[domain].first.has(slot)) return kFinaliseFirst;
  return domains_[domain].last.has(slot) ? kFinaliseLast : kFinaliserRuns;
}

}  // namespace memprofd
