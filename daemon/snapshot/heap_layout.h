// SPDX-License-Identifier: Apache-2.0
// Layout of a runtime's heap for the walk: the addresses and structure of its lists.
// runtime/memory.h and shared_heap.c of each release define the structures. Facts that the
// program's machine code reveals are read there and must agree.
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

// OCaml 4.11 to 4.14: a list of chunks. Addresses are those in the process.
struct ChunkHeap {
  std::uint64_t first_chunk = 0;     // caml_heap_start, which contains the address
  std::uint64_t gc_phase = 0;        // caml_gc_phase, an int
  std::uint64_t sweep_position = 0;  // caml_gc_sweep_hp, which contains the address
};

// OCaml 5: each domain has pools of slots, by size, and a list of large blocks.
struct PoolHeap {
  static constexpr int kClasses = 32;
  static constexpr std::uint64_t kPoolWords = 4096;
  static constexpr std::uint64_t kHeadWords = 4;  // header of a pool, before its slots

  std::uint64_t colours = 0;  // caml_global_heap_state: marked, unmarked, garbage
  std::uint64_t orphans = 0;  // pool_freelist: pools and blocks of domains that have ended
  std::array<std::uint32_t, kClasses> slot_words{};
};

struct HeapLayout {
  RuntimeAbi abi;
  std::variant<ChunkHeap, PoolHeap> heap;
  // caml_ephe_none, which contains the placeholder in empty ephemeron fields; 0: unknown.
  std::uint64_t no_key = 0;
  std::uint64_t first_ephemeron = 0;  // OCaml 4: caml_ephe_list_head, which contains the first one;
                                      // or 0
};

// Finds the layout of a program that is mapped at load_bias. kFailedPrecondition, in one line, if
// the runtime lacks a symbol or its code is not understood.
absl::StatusOr<HeapLayout> find_heap_layout(const ElfFile& program, std::uint64_t load_bias,
                                            const RuntimeAbi& abi);

// Addresses of data that the code computes (lea disp32(%rip), register), in order. address: the
// location of the code.
std::vector<std::uint64_t> decode_data_addresses(std::span<const std::byte> code,
                                                 std::uint64_t address);

// True if caml_heap_size reads pool_words and large_words of the statistics at the expected
// offsets.
bool heap_size_agrees(std::span<const std::byte> code);

}  // namespace memprofd
