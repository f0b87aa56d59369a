// SPDX-License-Identifier: Apache-2.0
// Detects whether blocks of a running program may have moved, or been freed, between two moments. A
// reader that does not stop the program reads the clock before and after: the data in between is
// consistent if both moments are equal and neither is in the middle of a move. This is exact,
// because the runtime writes each of these words before it moves the first block, or after the
// last.
//
//     OCaml 4   in_minor_collection, the counts of both kinds of collections, the phase of the
//               major one, the free words of the heap, which are 0 while it is compacted
//     OCaml 5   the counts, then the leader of a stop-the-world section
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/gc_stats.h"
#include "daemon/discover/memory_reader.h"
#include "daemon/discover/target_memory.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

class HeapClock {
 public:
  // Location of the program's clock.
  struct Addresses {
    std::uint64_t load_bias = 0;
    std::uint64_t caml_state = 0;  // OCaml 4
    GcCounters counters;           // OCaml 5
  };
  // kFailedPrecondition, in one line, when the runtime is not understood.
  static absl::StatusOr<HeapClock> find(const ElfFile& program, const RuntimeAbi& abi,
                                        const Addresses& addresses);

  struct Moment {
    std::vector<std::uint64_t> words;
    bool moving = false;
    // True if nothing has moved or been freed since.
    bool still(const Moment& later) const {
      return !moving && !later.moving && words == later.words;
    }
  };
  absl::StatusOr<Moment> now(const MemoryReader& memory) const;

  // The same for callers that read other memory in the same request: the pieces to read into words,
  // which must outlive the request, and their interpretation afterwards.
  static constexpr std::size_t kMaxWords = 8;
  using Words = std::array<std::uint64_t, kMaxWords>;
  void add_pieces(Words& words, std::vector<MemoryPiece>& pieces) const;
  Moment moment_of(const Words& words) const;

 private:
  struct Word {
    enum What { kCount, kMovesWhenSet, kMovesWhenZero };
    std::uint64_t address = 0;
    What what = kCount;
    std::uint32_t bytes = 8;
  };

  absl::Status find_old(const ElfFile& program, const RuntimeAbi& abi, const Addresses& addresses);
  absl::Status find_new(const ElfFile& program, const RuntimeAbi& abi, const Addresses& addresses);

  std::vector<Word> words_;  // in the order in which they are to be read
};

}  // namespace memprofd
