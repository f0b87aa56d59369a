// SPDX-License-Identifier: Apache-2.0
// Walks the heap of an OCaml program that waits, and prints what it found as JSON: numbers of
// blocks by what they are, by tag and size, and how much processor time that took.
//
// heap_walk PID [STATE...]: the addresses of the states of its domains; of OCaml 4, none. Exit code
// 1 when the heap is refused: the reason is on stderr.
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/discover/target.h"
#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_layout.h"
#include "daemon/snapshot/heap_map.h"
#include "daemon/snapshot/heap_walk.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::string json(const BlockCount& count) {
  return fmt::format("[{},{}]", count.blocks, count.words);
}

std::string json(const SizeTable& table) {
  std::string text;
  for (const SizeRow& row : table.rows()) {
    text += fmt::format("{}[{},{},{}]", text.empty() ? "" : ",", row.tag, row.fields, row.blocks);
  }
  return "[" + text + "]";
}

void print(const HeapMap& map, const HeapCensus& census, double seconds) {
  fmt::print("{{\"used\":{},\"dead\":{},\"free\":{},\"fragments\":{},\"minor\":{},",
             json(census.major(BlockState::kUsed)), json(census.major(BlockState::kDead)),
             json(census.major(BlockState::kFree)), json(census.major(BlockState::kFragment)),
             json(census.minor()));
  fmt::print(
      "\"large\":{},\"largest_free\":{},\"heap_words\":{},\"regions\":{},\"seconds\":{:.4f},",
      json(census.count(RegionKind::kLarge, BlockState::kUsed)), census.largest_free_words(),
      map.sums.heap_words, map.regions.size(), seconds);
  const auto orphans = std::count_if(
      map.regions.begin(), map.regions.end(),
      [](const HeapRegion& region) { return region.domain == HeapRegion::kNoDomain; });
  fmt::print("\"orphans\":{},\"rows\":{}}}\n", orphans, json(census.used()));
}

absl::Status run(int pid, std::vector<std::uint64_t> states) {
  ASSIGN_OR_RETURN(const Target target, discover_target(pid));
  ASSIGN_OR_RETURN(const HeapLayout layout,
                   find_heap_layout(*target.program, target.load_bias, target.abi));
  if (!target.abi.domains) states = {target.caml_state_address};
  const double begin = cpu_seconds();
  ASSIGN_OR_RETURN(const HeapMap map, map_heap(*target.memory, layout, states));
  HeapCensus census;
  RETURN_IF_ERROR(walk_heap(*target.memory, map, census));
  RETURN_IF_ERROR(census.check(map));
  print(map, census, cpu_seconds() - begin);
  return absl::OkStatus();
}

}  // namespace
}  // namespace memprofd

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: heap_walk PID [STATE...]\n");
    return 2;
  }
  std::vector<std::uint64_t> states;
  for (int i = 2; i < argc; ++i) states.push_back(std::strtoull(argv[i], nullptr, 0));
  const absl::Status status = memprofd::run(std::atoi(argv[1]), states);
  if (!status.ok()) fmt::print(stderr, "heap_walk: {}\n", std::string(status.message()));
  return status.ok() ? 0 : 1;
}
