// SPDX-License-Identifier: Apache-2.0
// Layout of a runtime's heap for the walk: where its lists begin and how they are built.
// runtime/memory.h and shared_heap.c of each release define the structures; everything that the
// program's machine code reveals is read there and has to agree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/runtime/runtime_abi.h"

namespace memprofd {

class ElfFile;

// OCaml 4.11 to 4.14: a list of chunks. Addresses are the process's.
struct ChunkHeap {
  std::uint64_t first_chunk = 0;     // caml_heap_start, which holds the address
  std::uint64_t gc_phase = 0;        // caml_gc_phase, an int
  std::uint64_t sweep_position = 0;  // caml_gc_sweep_hp, which holds the address
};

// OCaml 5: each domain has pools of slots, by size, and a list of large blocks.
struct PoolHeap {
  static constexpr int kClasses = 32;
  static constexpr std::uint64_t kPoolWords = 4096;
  static constexpr std::uint64_t kHeadWords = 4;  // of a pool, before its slots

  std::uint64_t colours = 0;  // caml_global_heap_state: marked, unmarked, garbage
  std::uint64_t orphans = 0;  // pool_freelist: what domains that ended have left
  std::array<std::uint32_t, kClasses> slot_words{};
};

struct HeapLayout {
  RuntimeAbi abi;
  std::variant<ChunkHeap, PoolHeap> heap;
  // caml_ephe_none, which holds what stands where an ephemeron has nothing; 0: it is not known.
  std::uint64_t no_key = 0;
  std::uint64_t first_ephemeron = 0;  // OCaml 4: caml_ephe_list_head, which holds one; or 0
};

// The program's, mapped at load_bias. kFailedPrecondition, in one line, when the runtime lacks a
// symbol or its code is not understood.
absl::StatusOr<HeapLayout> find_heap_layout(const ElfFile& program, std::uint64_t load_bias,
                                            const RuntimeAbi& abi);

// Addresses that code takes of its own file's data (lea disp32(%rip), register), in their order.
// address is where the code is.
std::vector<std::uint64_t> decode_data_addresses(std::span<const std::byte> code,
                                                 std::uint64_t address);

// True if caml_heap_size reads pool_words and large_words of the statistics at the expected
// offsets.
bool heap_size_agrees(std::span<const std::byte> code);

}  // namespace memprofd
