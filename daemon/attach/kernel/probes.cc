// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/probes.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/attach/kernel/kernel_object.h"
#include "daemon/attach/kernel/probe_programs.h"
#include "daemon/discover/target_memory.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

absl::StatusOr<BpfLink> attach_tracepoint(bpf_program* program, const char* name) {
  bpf_link* link = bpf_program__attach_raw_tracepoint(program, name);
  if (link == nullptr) return bpf_attach_error("the lifecycle probe", name, errno);
  return BpfLink(link);
}

#ifdef __x86_64__
constexpr bool kKnown = true;
#else
constexpr bool kKnown = false;
#endif
constexpr std::uint8_t kInt3 = 0xcc, kCall = 0xe8;

}  // namespace

Probes::Probes(const KernelObject& object, const KernelConfig& config)
    : object_(object),
      pid_(config.pid),
      kind_(config.uprobes),
      domains_(config.fiber_stacks),
      follow_forks_(config.follow_forks),
      observe_(config.observe) {}

absl::Status Probes::attach(Probe probe, const ProbeSite& site) {
  const ProbeRow& row = kProbeTable[static_cast<std::size_t>(probe)];
  begin_detach(probe);
  ASSIGN_OR_RETURN(link(probe), UprobeLink::attach(row.program(object_.main->progs, domains_),
                                                   kind_, pid_, site, row.what));
  return absl::OkStatus();
}

absl::Status Probes::attach_lifecycle() {
  const auto& programs = object_.main->progs;
  auto& [exec, thread_exit, fork, signal, end] = tracepoints_;
  ASSIGN_OR_RETURN(exec, attach_tracepoint(programs.on_exec, "sched_process_exec"));
  ASSIGN_OR_RETURN(thread_exit, attach_tracepoint(programs.on_thread_exit, "sched_process_exit"));
  if (!observe_) {
    ASSIGN_OR_RETURN(signal, attach_tracepoint(programs.on_signal, "signal_deliver"));
  }
  if (object_.tasks != nullptr) {
    ASSIGN_OR_RETURN(end,
                     attach_tracepoint(object_.tasks->progs.on_program_end, "sched_process_exit"));
  }
  if (!follow_forks_) return absl::OkStatus();
  ASSIGN_OR_RETURN(fork, attach_tracepoint(object_.tasks->progs.on_fork, "sched_process_fork"));
  return absl::OkStatus();
}

void Probes::begin_detach() {
  for (UprobeLink& link : uprobes_) removal_.add(link);
  for (BpfLink& link : tracepoints_) removal_.add(link);
}

void Probes::detach() {
  begin_detach();
  removal_.wait();
}

bool Probes::detached(const MemoryReader& memory, std::span<const std::uint64_t> addresses) {
  return removal_.done() || (shows_no_probe(memory, addresses) && removal_.leave());
}

std::optional<ProbeRuns> Probes::runs() const {
  ProbeRuns runs;
  for (const ProbeRow& row : kProbeTable) {
    bpf_prog_info info{};
    std::uint32_t bytes = sizeof info;
    const int fd = bpf_program__fd(row.program(object_.main->progs, domains_));
    if (fd < 0) continue;  // this probe is not needed here
    if (bpf_obj_get_info_by_fd(fd, &info, &bytes) != 0) return std::nullopt;
    runs.hits += info.run_cnt;
    runs.program_ns += info.run_time_ns;
  }
  return runs;
}

// ------------------------------------------------------- breakpoints in memory

bool shows_no_probe(const MemoryReader& memory, std::span<const std::uint64_t> addresses) {
  std::vector<std::uint8_t> code(addresses.size());
  MemoryQuestion question;
  for (std::size_t i = 0; i < code.size(); ++i) question.about(addresses[i], code[i]);
  if (!kKnown || addresses.empty() || !question.ask(memory).ok()) return false;
  return std::ranges::none_of(code, [](auto byte) { return byte == kInt3 || byte == kCall; });
}

}  // namespace memprofd
