// SPDX-License-Identifier: Apache-2.0
// Finds finalisers: the runtime has a table for Gc.finalise, one for Gc.finalise_last, and a list
// of pending ones. In OCaml 5 each domain has its own.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/discover/elf_file.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

inline constexpr std::string_view kFinaliseFirst = "Gc.finalise";
inline constexpr std::string_view kFinaliseLast = "Gc.finalise_last";
inline constexpr std::string_view kFinaliserRuns = "to run";

// OCaml 4: finalisable_first and finalisable_last of runtime/finalise.c; 0: unknown.
struct FinaliserAddresses {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};
FinaliserAddresses find_finalisers(const ElfFile& program, std::uint64_t load_bias);

class FinaliserTables {
 public:
  // addresses: for OCaml 4. states: as for map_heap().
  static FinaliserTables read(const MemoryReader& memory, const RuntimeAbi& abi,
                              const FinaliserAddresses& addresses,
                              std::span<const std::uint64_t> states);

  // The kind of a finaliser root, determined by its slot; empty: unknown.
  std::string_view kind_of(std::size_t domain, std::uint64_t slot) const;

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    bool has(std::uint64_t address) const { return begin <= address && address < end; }
  };
  struct OfDomain {
    Range first;
    Range last;
    bool is_known = false;
  };
  static OfDomain read_tables(const MemoryReader& memory, std::uint64_t first, std::uint64_t last);

  std::vector<OfDomain> domains_;
};

}  // namespace memprofd
