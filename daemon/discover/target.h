// SPDX-License-Identifier: Apache-2.0
// Everything that is known about a program before it is modified.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/agent_finder.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/frame_table.h"
#include "daemon/discover/gc_stats.h"
#include "daemon/discover/plugins.h"
#include "daemon/discover/probe_point.h"
#include "daemon/discover/target_memory.h"
#include "daemon/discover/workload.h"
#include "daemon/model/requested_process.h"
#include "daemon/runtime/runtime_abi.h"
#include "daemon/util/byte_budget.h"
#include "daemon/util/shared_fd.h"

namespace memprofd {

struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool contains(std::uint64_t address) const { return begin <= address && address < end; }
  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

struct Target {
  int pid = 0;
  int container_pid = 0;               // in its own pid namespace; 0: the same
  std::uint64_t start_time_ticks = 0;  // field 22 of /proc/PID/stat; with pid identifies a process
  UniqueFd pidfd;
  // The user besides root who may inspect it (process_owner.h). Belongs to the same address space
  // as memory.
  std::optional<ProcessUser> owner;
  std::string comm;
  Workload workload;
  std::string ocamlrunparam;  // OCAMLRUNPARAM at program start
  std::string exe;            // readlink of /proc/PID/exe
  SharedFd program_file;      // the file that was parsed: probes are placed in it
  // Limits the data about the target; charged with contents of its files and its memory.
  SharedBudget budget = ByteBudget::for_target();
  RuntimeAbi abi;
  std::uint64_t caml_state_address = 0;  // value of the Caml_state pointer; 0 in OCaml 5
  // OCaml 4: address of the int that is set while callbacks wait
  std::uint64_t pending_actions = 0;
  // OCaml 5: where a thread keeps its domain's state, from its thread pointer.
  std::optional<std::int64_t> state_offset;
  ProbePoint capture;          // the runtime captures a callstack here
  ProbePoint safe_point;       // the runtime runs callbacks here
  ProbePoint slow_allocation;  // an allocation does not fit into the minor heap
  std::string why_no_agent;    // one line; empty: an agent can be there
  std::string why_no_observe;  // one line; empty: observe mode is possible
  GcCounters gc_counters;
  AddressRange user_callstack;     // caml_get_current_callstack
  AddressRange track_interned;     // caml_memprof_track_interned
  AddressRange c_calls;            // the runtime's code that calls C; empty: not known
  ProbePoint register_frametable;  // Dynlink registers frame tables here; 0: unavailable
  FrameTable frames;               // frames of the program
  PluginFinder plugin_finder;      // finds and remembers plugins
  std::vector<OcamlCode> plugins;  // loaded by now
  // Frame descriptors to reserve in the kernel's table: of those plugins and of more to
  // come; 0 when the program cannot load any.
  std::uint64_t room_for_plugins = 0;
  std::shared_ptr<TargetMemory> memory;  // shared with inspections of the running program
  std::unique_ptr<ElfFile> program;      // kept open: it outlives the process
  std::uint64_t load_bias = 0;           // from the file's addresses to the process's
  std::uint64_t registry = 0;            // address of the published values; 0: none
  std::vector<AgentLocation> agents;     // more than one: of other builds, or by mistake
};

// True if the process has ended.
bool has_exited(const Target& target);
// Checks that the process still runs the inspected program. kNotFound: it has ended;
// kFailedPrecondition: it has become another program (exec); kDeadlineExceeded: unknown at the
// moment.
absl::Status check_same_program(const Target& target);

// Inspects a process and returns everything that an attach needs, in either mode, or an error of
// one line with cause and remedy. Waits up to 2 s for a process that has just started. Error codes:
//
//   kNotFound            no such process, or it ended meanwhile
//   kFailedPrecondition  not an OCaml program that can be profiled
//   kPermissionDenied    may not be inspected
//
// proc_root is "/proc", or a fake tree in tests. Stops searching for plugins when stop is
// requested.
absl::StatusOr<Target> discover_target(int pid, const std::string& proc_root = "/proc",
                                       std::stop_token stop = {});

}  // namespace memprofd
