// SPDX-License-Identifier: Apache-2.0
// Copies a running OCaml program that has the agent, and walks the copy's heap. Prints the output
// of heap_walk, the numbers of roots by kind, the memory reachable from them, the retained words
// of the blocks that retain most, and the pause of the program.
//
// heap_copy PID waiting TRIES: takes copies of a program while it waits (waiting_program.h), and
// finally prints the number of refused tries by reason. Each try follows the previous one after up
// to 2 ms, not at a safe point.
//
// heap_copy PID [hold]: with hold, prints "held COPY'S_PID" when the copy has found its roots, and
// continues after a line on standard input. Exit code 1 means failure, with the reason on stderr.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/attach/inject/heap_copy.h"
#include "daemon/attach/inject/injector.h"
#include "daemon/attach/inject/waiting_program.h"
#include "daemon/discover/runtime_locks.h"
#include "daemon/discover/target.h"
#include "daemon/snapshot/dominators.h"
#include "daemon/snapshot/heap_census.h"
#include "daemon/snapshot/heap_graph.h"
#include "daemon/snapshot/heap_layout.h"
#include "daemon/snapshot/heap_map.h"
#include "daemon/snapshot/heap_walk.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "tests/bench/heap_json.h"

namespace memprofd {
namespace {

// An idle program may take long to reach a safe point.
constexpr auto kPatience = std::chrono::seconds(30);

void print_roots(const HeapCopy& copy) {
  static constexpr const char* kNames[MEMPROF_ROOT_KINDS] = {
      "module", "stack", "local", "c_global", "finaliser", "memprof", "thread"};
  fmt::print("{{\"clone_ns\":{},\"roots\":{{", copy.clone_ns());
  for (int kind = 0; kind < MEMPROF_ROOT_KINDS; ++kind) {
    fmt::print("{}\"{}\":{}", kind == 0 ? "" : ",", kNames[kind],
               copy.roots_of(static_cast<memprof_root_kind>(kind)));
  }
  fmt::print("}},");
}

// Prints the memory reachable from the roots, and the largest retained sizes.
absl::Status print_reachable(const HeapCopy& copy, const HeapMap& map) {
  ASSIGN_OR_RETURN(const HeapGraph graph, build_heap_graph(copy.memory(), map));
  std::vector<std::uint32_t> entries;
  for (const memprof_root& root : copy.roots()) entries.push_back(graph.held_by(root.value));
  const DominatorTree tree(graph.edges, entries);
  std::vector<std::uint64_t> retained = tree.retained(graph.words);
  std::uint64_t words = 0;
  for (const std::uint32_t block : tree.order()) words += graph.words[block];
  const std::size_t most = std::min<std::size_t>(retained.size(), 20);
  std::partial_sort(retained.begin(), retained.begin() + static_cast<std::ptrdiff_t>(most),
                    retained.end(), std::greater<>());
  fmt::print("\"reachable\":[{},{}],\"retained\":[", tree.reachable(), words);
  for (std::size_t i = 0; i < most; ++i) fmt::print("{}{}", i == 0 ? "" : ",", retained[i]);
  fmt::print("],");
  return absl::OkStatus();
}

void hold(pid_t copy) {
  fmt::print("held {}\n", copy);
  std::fflush(stdout);
  while (std::getchar() != '\n' && std::feof(stdin) == 0) {
  }
}

absl::Status use(const HeapLayout& layout, const HeapCopy& copy, bool is_held) {
  if (is_held) hold(copy.pid());
  const double begin = cpu_seconds();
  ASSIGN_OR_RETURN(const HeapMap map, map_heap(copy.memory(), layout, copy.states()));
  HeapCensus census;
  RETURN_IF_ERROR(walk_heap(copy.memory(), map, census));
  RETURN_IF_ERROR(census.check(map));
  print_roots(copy);
  RETURN_IF_ERROR(print_reachable(copy, map));
  fmt::print("\"heap\":");
  print_heap(map, census, cpu_seconds() - begin);
  fmt::print("}}\n");
  return absl::OkStatus();
}

struct Tool {
  Target target;
  HeapLayout layout;
  CopyAgent agent;
  LibcFunctions libc;
};

absl::StatusOr<Tool> tool_for(int pid) {
  ASSIGN_OR_RETURN(Target target, discover_target(pid));
  ASSIGN_OR_RETURN(const HeapLayout layout,
                   find_heap_layout(*target.program, target.load_bias, target.abi));
  if (target.agents.size() != 1) return absl::FailedPreconditionError("there is no agent in it");
  ASSIGN_OR_RETURN(
      const auto file,
      ElfFile::from_fd(UniqueFd(::fcntl(target.agents[0].file->get(), F_DUPFD_CLOEXEC, 0)),
                       "the agent"));
  ASSIGN_OR_RETURN(const CopyAgent agent, find_copy_agent(*file, target.agents[0].control_address));
  ASSIGN_OR_RETURN(const auto maps, target.memory->maps());
  ASSIGN_OR_RETURN(const LibcFunctions libc, find_libc_functions(pid, maps));
  RETURN_IF_ERROR(HeapCopy::prepare(target, agent, std::chrono::seconds(3)));
  return Tool{std::move(target), layout, agent, libc};
}

absl::Status try_waiting(const Tool& tool, const RuntimeLocks& locks) {
  ASSIGN_OR_RETURN(const WaitingProgram program, WaitingProgram::inspect(tool.target, locks, {}));
  PtraceSession session;
  const std::uint64_t stopped_at_ns = monotonic_ns();
  ASSIGN_OR_RETURN(StoppedCall stopped, stop_in_call(program, session));
  BorrowedThread thread(tool.target, tool.libc, session, program, stopped.waits,
                        std::move(stopped.state));
  ASSIGN_OR_RETURN(const HeapCopy copy,
                   HeapCopy::take(tool.target, tool.agent, thread, stopped_at_ns));
  absl::Status used;
  thread.watch_while([&] { used = use(tool.layout, copy, false); });
  return absl::IsUnavailable(used) ? absl::InternalError(used.message()) : used;
}

absl::Status run_waiting(int pid, int tries) {
  ASSIGN_OR_RETURN(const Tool tool, tool_for(pid));
  ASSIGN_OR_RETURN(const RuntimeLocks locks, RuntimeLocks::find(tool.target));
  std::map<std::string, int> refused;
  std::mt19937 random{std::random_device()()};
  std::uniform_int_distribution<int> pause_us(0, 2000);
  for (int i = 0; i < tries; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us(random)));
    absl::Status tried;
    std::thread([&] { tried = try_waiting(tool, locks); }).join();
    if (absl::IsUnavailable(tried)) {
      ++refused[std::string(tried.message())];
    } else {
      RETURN_IF_ERROR(tried);
    }
  }
  std::string text;
  for (const auto& [why, count] : refused) {
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", why, count);
  }
  fmt::print("{{\"refused\":{{{}}}}}\n", text);
  return absl::OkStatus();
}

absl::Status run(int pid, bool is_held) {
  ASSIGN_OR_RETURN(const Tool tool, tool_for(pid));
  ProbeRemoval removal;
  Injection injection{.target = &tool.target, .removal = &removal, .libc = tool.libc};
  injection.callback = [&](BorrowedThread& thread, std::uint64_t stopped_at_ns) -> absl::Status {
    ASSIGN_OR_RETURN(const HeapCopy copy,
                     HeapCopy::take(tool.target, tool.agent, thread, stopped_at_ns));
    return use(tool.layout, copy, is_held);
  };
  ASSIGN_OR_RETURN(const auto injector, Injector::start(std::move(injection)));
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!injector->result() && (is_held || std::chrono::steady_clock::now() < end)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  injector->wait();
  return injector->result()->status();
}

}  // namespace
}  // namespace memprofd

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: heap_copy PID [hold | waiting TRIES]\n");
    return 2;
  }
  const bool is_held = argc > 2 && std::string_view(argv[2]) == "hold";
  const bool waits = argc > 3 && std::string_view(argv[2]) == "waiting";
  const int pid = std::atoi(argv[1]);
  const absl::Status status =
      waits ? memprofd::run_waiting(pid, std::atoi(argv[3])) : memprofd::run(pid, is_held);
  if (!status.ok()) fmt::print(stderr, "heap_copy: {}\n", std::string(status.message()));
  return status.ok() ? 0 : 1;
}
