// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/heap_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "daemon/discover/elf_file.h"
#include "daemon/runtime/code_check.h"
#include "daemon/runtime/pool_offsets.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kLargestSlot = 128;

absl::Status modified(const RuntimeAbi& abi, std::string_view what) {
  return absl::FailedPreconditionError(fmt::format(
      "the OCaml {} runtime is a modified build: {}; its heap cannot be read", abi.version, what));
}

// The addresses of all names, in the same order.
absl::StatusOr<std::vector<std::uint64_t>> addresses_of(const ElfFile& program,
                                                        const RuntimeAbi& abi,
                                                        std::span<const std::string_view> names) {
  const auto symbols = program.find_symbols(names);
  std::vector<std::uint64_t> addresses;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!symbols[i]) return modified(abi, fmt::format("it has no {}", names[i]));
    addresses.push_back(symbols[i]->address);
  }
  return addresses;
}

std::optional<std::uint32_t> displacement(std::span<const std::byte> code, std::size_t at) {
  std::uint32_t value = 0;
  if (at + sizeof value > code.size()) return std::nullopt;
  std::memcpy(&value, code.data() + at, sizeof value);
  return value;
}

bool is_lea(std::span<const std::byte> code, std::size_t at) {
  return (code[at] & std::byte{0xf8}) == std::byte{0x48} && code[at + 1] == std::byte{0x8d};
}

// Slots fill a pool from its end, so the sizes determine how many words remain at its front.
bool agree(std::span<const std::uint32_t> slot_words, std::span<const std::uint8_t> wastage) {
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < slot_words.size(); ++i) {
    const std::uint32_t words = slot_words[i];
    if (words <= before || words > kLargestSlot) return false;
    if (wastage[i] != (PoolHeap::kPoolWords - PoolHeap::kHeadWords) % words) return false;
    before = words;
  }
  return before == kLargestSlot;
}

// caml_redarken_pool reads the number of wasted words for a pool's class, then that of a slot.
absl::Status read_classes(const ElfFile& program, std::uint64_t function, const RuntimeAbi& abi,
                          PoolHeap& heap) {
  std::array<std::byte, 96> code = {};
  std::array<std::uint8_t, PoolHeap::kClasses> wastage = {};
  RETURN_IF_ERROR(program.read(function, code));
  const auto tables = decode_data_addresses(code, function);
  if (tables.size() < 2 ||
      !program.read(tables[0], std::as_writable_bytes(std::span(wastage))).ok() ||
      !program.read(tables[1], std::as_writable_bytes(std::span(heap.slot_words))).ok() ||
      !agree(heap.slot_words, wastage)) {
    return modified(abi, "the sizes of its pools' slots are not where caml_redarken_pool has them");
  }
  return absl::OkStatus();
}

absl::StatusOr<HeapLayout> find_chunks(const ElfFile& program, std::uint64_t load_bias,
                                       const RuntimeAbi& abi) {
  static constexpr std::string_view kNames[] = {"caml_heap_start", "caml_gc_phase",
                                                "caml_gc_sweep_hp"};
  ASSIGN_OR_RETURN(const auto found, addresses_of(program, abi, kNames));
  return HeapLayout{abi, ChunkHeap{.first_chunk = load_bias + found[0],
                                   .gc_phase = load_bias + found[1],
                                   .sweep_position = load_bias + found[2]}};
}

absl::StatusOr<HeapLayout> find_pools(const ElfFile& program, std::uint64_t load_bias,
                                      const RuntimeAbi& abi) {
  static constexpr std::string_view kNames[] = {"caml_global_heap_state", "caml_redarken_pool",
                                                "caml_accum_orphan_heap_stats", "caml_heap_size",
                                                "caml_do_roots"};
  ASSIGN_OR_RETURN(const auto found, addresses_of(program, abi, kNames));
  PoolHeap heap{.colours = load_bias + found[0]};
  RETURN_IF_ERROR(read_classes(program, found[1], abi, heap));
  std::array<std::byte, 32> code = {};
  RETURN_IF_ERROR(program.read(found[2], code));
  const auto orphans = decode_data_addresses(code, found[2]);
  if (orphans.empty()) return modified(abi, "caml_accum_orphan_heap_stats is not understood");
  heap.orphans = load_bias + orphans[0];
  RETURN_IF_ERROR(program.read(found[3], code));
  if (!heap_size_agrees(code)) return modified(abi, "caml_heap_size is not understood");
  std::array<std::byte, 48> do_roots = {};
  RETURN_IF_ERROR(program.read(found[4], do_roots));
  if (decode_far_load(do_roots, FarLoad::kAny) != abi.local_roots) {
    return modified(abi, "caml_do_roots finds the roots of C code elsewhere");
  }
  return HeapLayout{abi, heap};
}

}  // namespace

// REX.W 8d, and a ModRM byte with mode 0 and register 5: relative to the next instruction.
std::vector<std::uint64_t> decode_data_addresses(std::span<const std::byte> code,
                                                 std::uint64_t address) {
  constexpr std::size_t kBytes = 7;
  std::vector<std::uint64_t> addresses;
  for (std::size_t i = 0; i + kBytes <= code.size(); ++i) {
    if (!is_lea(code, i) || (code[i + 2] & std::byte{0xc7}) != std::byte{0x05}) continue;
    const auto distance = static_cast<std::int32_t>(*displacement(code, i + 3));
    addresses.push_back(address + i + kBytes + static_cast<std::uint64_t>(std::int64_t{distance}));
    i += kBytes - 1;
  }
  return addresses;
}

// 48 8b 87 disp32   mov  pool_words(%rdi), %rax
// 48 03 87 disp32   add  large_words(%rdi), %rax
bool heap_size_agrees(std::span<const std::byte> code) {
  static constexpr std::byte kLoad[] = {std::byte{0x48}, std::byte{0x8b}, std::byte{0x87}};
  static constexpr std::byte kAdd[] = {std::byte{0x48}, std::byte{0x03}, std::byte{0x87}};
  const auto load = std::search(code.begin(), code.end(), std::begin(kLoad), std::end(kLoad));
  const auto at = static_cast<std::size_t>(load - code.begin());
  if (at + 14 > code.size() || !std::equal(std::begin(kAdd), std::end(kAdd), load + 7))
    return false;
  return displacement(code, at + 3) == kHeapStats + kStatPoolWords &&
         displacement(code, at + 10) == kHeapStats + kStatLargeWords;
}

absl::StatusOr<HeapLayout> find_heap_layout(const ElfFile& program, std::uint64_t load_bias,
                                            const RuntimeAbi& abi) {
  ASSIGN_OR_RETURN(HeapLayout layout, abi.domains ? find_pools(program, load_bias, abi)
                                                  : find_chunks(program, load_bias, abi));
  static constexpr std::string_view kNames[] = {"caml_ephe_none", "caml_ephe_list_head"};
  const auto found = program.find_symbols(kNames);
  if (found[0]) layout.no_key = load_bias + found[0]->address;
  if (found[1] && !abi.domains) layout.first_ephemeron = load_bias + found[1]->address;
  return layout;
}

}  // namespace memprofd
