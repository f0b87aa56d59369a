// SPDX-License-Identifier: Apache-2.0
// Use of a byte of a process's memory. Each byte has one class, so that classes add up.
#pragma once

#include <cstdint>
#include <string_view>

namespace memprofd {

enum class RssClass : std::uint8_t {
  kOcamlUsed,       // blocks of the major heap, including garbage that is not swept yet
  kOcamlFree,       // free space between them
  kLostPool,        // OCaml 5: pools that a compaction gave up but could not unmap
  kMinorHeap,       // total of all domains
  kFiberStack,      // OCaml 5
  kChannel,         // including their buffers
  kRememberedSet,   // reference tables, of pointers from the major heap into the minor one
  kFrameTable,      // hash table of frame descriptors
  kRuntimeTable,    // mark stack, domain state, caches, ...
  kMallocUsed,      // chunks of arenas in use
  kMallocMmapped,   // chunks with mappings of their own
  kMallocFree,      // free chunks of arenas, including their tops
  kMallocCache,     // free chunks cached by threads and bins for the next malloc
  kMallocUnwalked,  // unknown parts of arenas
  kNotRead,         // parts of the OCaml heap or of malloc whose reading ended early
  kThreadStack,
  kCode,
  kReadOnlyData,
  kStaticData,
  kMappedFile,
  kSharedMemory,
  kAgent,
  kKernel,    // mapped by the kernel into each process
  kReserved,  // anonymous, currently inaccessible
  kOther,     // anonymous memory of unknown use
};
inline constexpr int kRssClasses = static_cast<int>(RssClass::kOther) + 1;

struct RssClassWords {
  std::string_view key;    // "ocaml_heap_used", for machines
  std::string_view title;  // "OCaml heap, in use"
};
const RssClassWords& words_of(RssClass kind);

// True if parts of this class are named after files.
bool has_names(RssClass kind);

}  // namespace memprofd
