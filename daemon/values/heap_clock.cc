// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/heap_clock.h"

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "daemon/discover/target_memory.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

absl::Status not_understood(const RuntimeAbi& abi, std::string_view what) {
  return absl::FailedPreconditionError(fmt::format(
      "values cannot be read: {} of the OCaml {} runtime was not found", what, abi.version));
}

// Returns the address of stw_leader, from the first such code in the function that takes the lead:
//   48 8b 05 disp32   mov disp32(%rip), %rax
//   48 85 c0          test %rax, %rax
std::optional<std::uint64_t> decode_leader(std::span<const std::byte> code, std::uint64_t address) {
  static constexpr unsigned char kLoad[] = {0x48, 0x8b, 0x05};
  static constexpr unsigned char kTest[] = {0x48, 0x85, 0xc0};
  for (std::size_t i = 0; i + 10 <= code.size(); ++i) {
    if (std::memcmp(&code[i], kLoad, 3) != 0 || std::memcmp(&code[i + 7], kTest, 3) != 0) continue;
    std::int32_t displacement = 0;
    std::memcpy(&displacement, &code[i + 3], sizeof displacement);
    return address + i + 7 + static_cast<std::uint64_t>(std::int64_t{displacement});
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<HeapClock> HeapClock::find(const ElfFile& program, const RuntimeAbi& abi,
                                          const Addresses& addresses) {
  RETURN_IF_ERROR(check_capability(abi, Capability::kValues));
  HeapClock clock;
  RETURN_IF_ERROR(abi.domains ? clock.find_new(program, abi, addresses)
                              : clock.find_old(program, abi, addresses));
  return clock;
}

absl::Status HeapClock::find_old(const ElfFile& program, const RuntimeAbi& abi,
                                 const Addresses& addresses) {
  static constexpr std::string_view kNames[] = {"caml_gc_phase", "caml_fl_cur_wsz"};
  const auto symbols = program.find_symbols(kNames);
  if (!symbols[0] || !symbols[1]) return not_understood(abi, "the phase of the collector");
  using Statistics = StatisticsOfOcaml4;
  const std::uint64_t stats = addresses.caml_state + abi.stats;
  // A compaction zeroes the free words before anything moves, and counts itself after everything
  // has moved.
  words_ = {{addresses.load_bias + symbols[1]->address, Word::kMovesWhenZero},
            {stats + offsetof(Statistics, compactions)},
            {addresses.load_bias + symbols[0]->address, Word::kCount, 4},
            {stats + offsetof(Statistics, major_collections)},
            {addresses.caml_state + abi.in_minor_collection, Word::kMovesWhenSet},
            {stats + offsetof(Statistics, minor_words)},
            {stats + offsetof(Statistics, minor_collections)},
            {addresses.caml_state + abi.young_start}};
  return absl::OkStatus();
}

absl::Status HeapClock::find_new(const ElfFile& program, const RuntimeAbi& abi,
                                 const Addresses& addresses) {
  const GcCounters& counters = addresses.counters;
  if (counters.minor_collections == 0 || counters.major_cycles == 0) {
    return not_understood(abi, "the count of collections");
  }
  words_ = {{counters.minor_collections}, {counters.major_cycles}};
  if (counters.compactions != 0) words_.push_back({counters.compactions});
  const auto lead = program.find_symbol("caml_try_run_on_all_domains_with_spin_work");
  std::array<std::byte, 256> code{};
  if (!lead || !program.read(lead->address, code).ok()) {
    return not_understood(abi, "which domain stops the world");
  }
  const auto leader = decode_leader(code, lead->address);
  if (!leader) return not_understood(abi, "which domain stops the world");
  words_.push_back({addresses.load_bias + *leader, Word::kMovesWhenSet});
  return absl::OkStatus();
}

absl::StatusOr<HeapClock::Moment> HeapClock::now(const MemoryReader& memory) const {
  Words words;
  std::vector<MemoryPiece> pieces;
  add_pieces(words, pieces);
  ASSIGN_OR_RETURN(const std::size_t read, read_pieces(memory, pieces));
  if (read < pieces.size()) return absl::OutOfRangeError("the runtime's words are not mapped");
  return moment_of(words);
}

void HeapClock::add_pieces(Words& words, std::vector<MemoryPiece>& pieces) const {
  words.fill(0);
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::span<std::uint64_t, 1> word(&words[i], 1);
    pieces.push_back({words_[i].address, std::as_writable_bytes(word).first(words_[i].bytes)});
  }
}

HeapClock::Moment HeapClock::moment_of(const Words& words) const {
  Moment moment;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words_[i].what == Word::kCount) {
      moment.words.push_back(words[i]);
    } else {
      moment.moving |= (words[i] != 0) == (words_[i].what == Word::kMovesWhenSet);
    }
  }
  return moment;
}

}  // namespace memprofd
