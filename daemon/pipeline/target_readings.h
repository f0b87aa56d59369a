// SPDX-License-Identifier: Apache-2.0
// The numbers of a target that are read from it instead of arriving as events: the runtime's
// counters, what the agent counts, the state of the native heap, and the memory of the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/attach/inject/agent_control.h"
#include "daemon/attach/inject/native_heap_control.h"
#include "daemon/discover/gc_stats.h"
#include "daemon/discover/memory_parts.h"
#include "daemon/discover/memory_status.h"
#include "daemon/discover/runtime_locks.h"
#include "daemon/discover/target.h"
#include "daemon/pipeline/pipeline.h"
#include "daemon/pipeline/sample_sites.h"

namespace memprofd {

// True if the process may have run since it had used this much CPU time; 0: unknown. Takes one
// system call, whereas a read of the target's memory switches to another process and back.
bool has_run_since(int pid, std::uint64_t cpu_ns);

// Owned by the ingest thread. Reads quickly, because that thread serves all targets.
class TargetReadings {
 public:
  // The pipeline counts the agent's losses. Both must outlive it. before: counters with which an
  // earlier memprofd has ended.
  TargetReadings(const Target& target, Pipeline& pipeline, const GcStats& before)
      : target_(target), pipeline_(pipeline), gc_(before) {}

  // The agent has been loaded into the process. native_heap: null if it does not follow that.
  void set_agent(const AgentControl& agent, const NativeHeapControl* native_heap);
  // Null until then.
  const AgentControl* agent() const { return agent_ ? &*agent_ : nullptr; }
  // OCaml 5: from which session on the agent follows blocks.
  void note_followed();

  // Reads everything for a snapshot, or for a window of the history. What the program cannot have
  // changed is not read again; what cannot be read keeps its last value.
  void update();
  void update_for_history();

  const GcStats& gc() const { return gc_; }
  const MajorTimes& majors() const { return majors_; }
  const std::optional<MemoryStatus>& memory_status() const { return memory_status_; }
  const MemoryParts& memory_parts() const { return memory_parts_; }

 private:
  void read_runtime();
  void read_memory();
  void read_native_heap();
  void count_agent_drops(const AgentStatus& agent);
  void note_followed(const AgentStatus& agent);
  // agent: null if it cannot be read.
  absl::StatusOr<GcStats> gc_now(const AgentStatus* agent);
  std::vector<DomainGc> domains(const AgentStatus& agent);

  const Target& target_;
  Pipeline& pipeline_;
  std::optional<AgentControl> agent_;
  std::optional<NativeHeapControl> native_heap_;
  // The agent may have counted before the attach: its first status and number of blocks that were
  // given up, to be subtracted.
  std::optional<AgentStatus> first_status_;
  std::optional<std::uint64_t> native_blocks_before_;
  std::optional<std::uint64_t> unsampled_words_;  // last reported value
  // OCaml 5: states of domains that ran before the agent came. It knows each once that allocates.
  std::optional<RuntimeLocks> locks_;
  std::vector<std::uint64_t> earlier_domains_;
  GcStats gc_;
  std::uint64_t gc_cpu_ns_ = 0;  // CPU time of the program before gc_ was read; 0: unknown
  MajorTimes majors_;
  std::optional<MemoryStatus> memory_status_;  // unset if it cannot be read
  std::chrono::steady_clock::time_point memory_read_at_;
  MemoryParts memory_parts_;  // last known values
  // What has been logged: that part of the native heap is not followed, that the program samples a
  // domain itself, a Gc.Memprof.stop of OCaml 5.
  bool native_heap_logged_ = false, own_use_logged_ = false, stop_logged_ = false;
};

}  // namespace memprofd
