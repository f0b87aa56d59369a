// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/rss_advice.h"

#include <fmt/core.h>

#include <algorithm>

namespace memprofd {
namespace {

// Advice that returns less, or less than this part of the total, is omitted.
constexpr std::uint64_t kMin = 1 << 20;
constexpr std::uint64_t kMinShare = 20;
// The default minor heap of a domain, 256 k words.
constexpr std::uint64_t kUsualMinorHeap = 2 << 20;
constexpr std::uint64_t kFewArenas = 2;
// A process is at its limit of mappings if less than this part of them is left.
constexpr std::uint64_t kFewMappingsLeft = 100;

bool compacts(const std::string& version) {
  return !version.starts_with("5.0") && !version.starts_with("5.1");
}

void add(RssReport& report, std::uint64_t bytes, std::string action, std::string reason) {
  if (bytes < kMin || bytes < report.counted / kMinShare) return;
  report.advice.push_back({std::move(action), std::move(reason), bytes});
}

// Size of OCaml 4's heap after a compaction. Blocks move to the first chunks, and empty chunks stay
// until free space is overhead times live memory. If that is still more than twice the wanted size,
// everything moves to one new chunk (runtime/compact.c). All of it is resident then.
std::uint64_t compacted_chunks(const RssReport& report, double overhead) {
  const auto live = static_cast<double>(report.ocaml_chunks_used);
  double to_place = live, kept = 0;
  for (const std::uint64_t bytes : report.ocaml_chunks) {
    const auto size = static_cast<double>(bytes);
    if (to_place <= 0 && kept - live >= overhead * live) continue;
    kept += size;
    to_place -= size;
  }
  const double target = live * (1 + overhead);
  return static_cast<std::uint64_t>(target < kept / 2 ? target : kept);
}

void advise_heap(RssReport& report) {
  const std::uint64_t free = report.resident(RssClass::kOcamlFree);
  const std::uint64_t used = report.resident(RssClass::kOcamlUsed);
  const auto overhead = static_cast<double>(report.space_overhead) / 100;
  // OCaml 5: the pools that become or are free.
  std::uint64_t given_back = free - std::min(free, report.ocaml_free_kept);
  if (!report.ocaml_chunks.empty()) {
    given_back = free + used - std::min(free + used, compacted_chunks(report, overhead));
  }
  if (report.heap_known && compacts(report.ocaml_version)) {
    add(report, given_back, "call Gc.compact ()",
        "the OCaml heap has free space; compaction pauses the program, which needs the space again "
        "when it grows");
  }
}

// No amount is promised, because the effect of a lower value depends on the program's later
// behaviour.
void hint_at_overhead(RssReport& report) {
  const std::uint64_t free = report.resident(RssClass::kOcamlFree);
  if (report.space_overhead < 2 || free < kMin || free < report.counted / kMinShare) return;
  report.hints.push_back(
      fmt::format("space_overhead is {}: with a lower one (Gc.set, or OCAMLRUNPARAM=o={}) the heap "
                  "grows less, and the collector works more",
                  report.space_overhead, report.space_overhead / 2));
}

void advise_minor_heap(RssReport& report) {
  const std::uint64_t usual = std::max<std::uint64_t>(1, report.ocaml_domains) * kUsualMinorHeap;
  const std::uint64_t minor = report.resident(RssClass::kMinorHeap);
  add(report, minor - std::min(minor, usual), "set OCAMLRUNPARAM=s=256k",
      "minor heaps are larger than usual; smaller ones are collected more often");
}

void advise_malloc(RssReport& report) {
  add(report, report.trimmable, "call malloc_trim (0)",
      "whole pages of malloc's arenas are free; trimming locks one arena after the other");
  std::uint64_t elsewhere = 0;
  for (const RssArena& arena : report.arenas) {
    if (!arena.is_main) elsewhere += arena.free + arena.cached;
  }
  if (report.arenas.size() <= kFewArenas) return;
  add(report, elsewhere, "set MALLOC_ARENA_MAX=2",
      fmt::format("{} arenas of C malloc each keep free memory; threads wait for each other more",
                  report.arenas.size()));
}

void hint_at_channels(RssReport& report) {
  const std::uint64_t bytes = report.resident(RssClass::kChannel);
  if (bytes < kMin || bytes < report.counted / kMinShare) return;
  report.hints.push_back(fmt::format(
      "{} channels have buffers of 64 KiB: those that are open, and those that could not "
      "be flushed when they were collected; with memprofd --c-heap, `memprofctl sites "
      "--heap c` names the functions that open them",
      report.number_of(RssClass::kChannel)));
}

// At its limit a process can neither map nor unmap memory.
void hint_at_mappings(RssReport& report) {
  const std::uint64_t most = report.max_mappings;
  if (most == 0 || report.mappings < most - most / kFewMappingsLeft) return;
  report.hints.push_back(fmt::format(
      "the process has {} of {} mappings (vm.max_map_count): at the limit it can neither "
      "map nor unmap memory, and OCaml 5 loses pools when it compacts",
      report.mappings, most));
}

}  // namespace

void advise(RssReport& report) {
  advise_heap(report);
  advise_minor_heap(report);
  advise_malloc(report);
  hint_at_overhead(report);
  hint_at_channels(report);
  hint_at_mappings(report);
  std::ranges::stable_sort(report.advice, std::ranges::greater{}, &RssAdvice::bytes);
}

}  // namespace memprofd
