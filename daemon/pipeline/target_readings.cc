// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/target_readings.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "daemon/pipeline/agent_drops.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;

// The kernel takes memory from programs that do not run, too, so idle programs are read at this
// interval.
constexpr std::chrono::seconds kMemoryOfIdle{10};

}  // namespace

bool has_run_since(int pid, std::uint64_t cpu_ns) {
  const std::uint64_t now_ns = process_cpu_ns(pid);
  return now_ns == 0 || now_ns != cpu_ns;
}

void TargetReadings::set_agent(const AgentControl& agent, const NativeHeapControl* native_heap) {
  agent_ = agent.through(target_.memory->quick());
  if (native_heap != nullptr) native_heap_ = native_heap->through(target_.memory->quick());
  if (!target_.abi.domains) return;
  if (auto locks = RuntimeLocks::find(target_); locks.ok()) {
    locks_ = *std::move(locks);
    earlier_domains_ = locks_->domain_states(target_.memory->quick());
  }
}

void TargetReadings::note_followed() {
  if (!agent_) return;
  if (const auto agent = agent_->status(); agent.ok()) note_followed(*agent);
}

void TargetReadings::note_followed(const AgentStatus& agent) {
  if (!agent.followed_since || !target_.abi.domains) return;
  pipeline_.follow_since(*agent.followed_since);
}

void TargetReadings::update() {
  if (has_run_since(target_.pid, gc_cpu_ns_)) read_runtime();
  read_memory();
}

void TargetReadings::update_for_history() {
  const bool has_run = has_run_since(target_.pid, gc_cpu_ns_);
  if (has_run) read_runtime();
  if (has_run || Clock::now() - memory_read_at_ >= kMemoryOfIdle) read_memory();
}

void TargetReadings::read_runtime() {
  const std::uint64_t cpu_ns = process_cpu_ns(target_.pid);
  gc_cpu_ns_ = 0;  // until they have been read
  const absl::StatusOr<AgentStatus> agent =
      agent_ ? agent_->status() : absl::NotFoundError("not there yet");
  if (agent.ok()) count_agent_drops(*agent);
  if (agent.ok()) note_followed(*agent);
  read_native_heap();
  const std::uint64_t asked_at_ns = monotonic_ns();
  const absl::StatusOr<GcStats> stats = gc_now(agent.ok() ? &*agent : nullptr);
  if (!stats.ok()) return;  // keeps the last numbers of an ended program
  gc_cpu_ns_ = cpu_ns;
  majors_.note(asked_at_ns, stats->major_collections);
  const auto pauses = gc_.pauses;
  const std::uint64_t top = std::max(gc_.top_heap_words, stats->heap_words);
  gc_ = *stats;
  gc_.pauses = pauses;
  if (gc_.top_heap_words == 0) gc_.top_heap_words = top;  // the highest value seen so far
  if (agent.ok()) std::copy(std::begin(agent->pauses), std::end(agent->pauses), gc_.pauses.begin());
}

// Call this after reading the runtime's counters.
void TargetReadings::read_memory() {
  memory_read_at_ = Clock::now();
  memory_status_.reset();
  const auto status = read_memory_status(target_.pid);
  if (!status.ok()) return;  // keeps the last parts of an ended program
  memory_status_ = *status;
  memory_parts_ = memprofd::memory_parts(*status, gc_);
}

void TargetReadings::count_agent_drops(const AgentStatus& agent) {
  if (!first_status_) first_status_ = agent;
  const std::uint64_t before = std::exchange(unsampled_words_, agent.unsampled_words)
                                   .value_or(first_status_->unsampled_words);
  pipeline_.unsampled(agent.unsampled_words - before);
  set_agent_drops(agent, *first_status_, pipeline_.drops());
  // In OCaml 5 the session continues: only the domain's profile starts again.
  if (target_.abi.domains && agent.program_stops != first_status_->program_stops &&
      !std::exchange(stop_logged_, true)) {
    log_warning("pid {}: the program has called Gc.Memprof.stop; starting again", target_.pid);
  }
  if (agent.conflicts == first_status_->conflicts || std::exchange(own_use_logged_, true)) return;
  log_warning(
      "pid {}: the program samples by Gc.Memprof itself: what its domain allocates until it stops "
      "that is missing (domain_in_use)",
      target_.pid);
}

void TargetReadings::read_native_heap() {
  if (!native_heap_) return;
  const auto status = native_heap_->status();
  if (!status.ok()) return;
  if (!native_blocks_before_) native_blocks_before_ = status->not_followed;
  pipeline_.drops().set(Drop::kAgentNativeBlocksFull,
                        status->not_followed - *native_blocks_before_);
  const std::string what = what_is_not_followed(*status);
  if (what.empty() || std::exchange(native_heap_logged_, true)) return;
  log_warning("pid {}: {}", target_.pid, what);
}

// Those of the agent, and those that it does not know yet.
std::vector<DomainGc> TargetReadings::domains(const AgentStatus& agent) {
  std::vector<DomainGc> domains = agent_->domains(agent);
  if (earlier_domains_.empty()) return domains;
  const std::vector<std::uint64_t> running = locks_->domain_states(target_.memory->quick());
  std::erase_if(earlier_domains_, [&](std::uint64_t state) {
    return std::ranges::find(running, state) == running.end() ||
           std::ranges::find(domains, state, &DomainGc::state) != domains.end();
  });
  for (const std::uint64_t state : earlier_domains_) domains.push_back({.state = state});
  return domains;
}

absl::StatusOr<GcStats> TargetReadings::gc_now(const AgentStatus* agent) {
  const MemoryReader& memory = target_.memory->quick();
  if (!target_.abi.domains) {
    return read_gc_stats(memory, target_.caml_state_address, target_.abi, target_.gc_counters);
  }
  if (const HeapMeter* meter = pipeline_.heap_meter()) {
    return read_observed_gc_stats(memory, target_.gc_counters, meter->totals());
  }
  if (agent == nullptr) return absl::NotFoundError("domains are unknown without an agent");
  return read_domain_gc_stats(memory, target_.abi, target_.gc_counters, domains(*agent),
                              agent->ended_words);
}

}  // namespace memprofd
