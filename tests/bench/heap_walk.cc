// SPDX-License-Identifier: Apache-2.0
// Walks the heap of a waiting OCaml program, and prints JSON: numbers of blocks by state, by tag
// and size, and the CPU time of the walk.
//
// heap_walk PID [STATE...]: STATE is the address of a domain's state; OCaml 4 needs none. Exit code
// 1 means that the heap is refused, with the reason on stderr.
#include <fmt/core.h>
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
#include "tests/bench/heap_json.h"

namespace memprofd {
namespace {

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
  print_heap(map, census, cpu_seconds() - begin);
  fmt::print("\n");
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
