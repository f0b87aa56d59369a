// SPDX-License-Identifier: Apache-2.0
// The probes of one target: in its code, its agent and the kernel. A uprobe is a row of the table
// in probes.cc; loading, attaching, detaching and counting walk that table. Owned by the control
// thread; runs() may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "daemon/attach/kernel/kernel_config.h"
#include "daemon/attach/kernel/probe_removal.h"
#include "daemon/attach/kernel/uprobe_link.h"
#include "daemon/discover/memory_reader.h"

namespace memprofd {

enum class Probe : std::size_t {
  kCapture,      // the runtime's request for the callstack of a sample
  kObserve,      // instead of capture and batch: at caml_alloc_small_dispatch
  kBatch,        // the agent's, with its semaphore
  kFrametable,   // where the runtime registers the code of a plugin
  kNativeAlloc,  // of the agent: a sampled native block
  kNativeFree,   // and its end
};
inline constexpr std::size_t kProbes = 6;

struct KernelObject;

struct ProbeRuns {
  std::uint64_t hits = 0;
  std::uint64_t program_ns = 0;
};

class Probes {
 public:
  // Both must outlive it.
  Probes(const KernelObject& object, const KernelConfig& config);
  Probes(const Probes&) = delete;
  Probes& operator=(const Probes&) = delete;
  ~Probes() { detach(); }

  // Replaces the previous one. The configuration determines which probes have programs.
  absl::Status attach(Probe probe, const ProbeSite& site);
  bool attached(Probe probe) const { return static_cast<bool>(link(probe)); }
  void begin_detach(Probe probe) { removal_.add(link(probe)); }

  // Tracepoints for exec, the ends of a thread and of the program, if it is followed, fork, and
  // with an agent the signals that end the program.
  absl::Status attach_lifecycle();

  // Removes all of them: the agent's semaphore falls and sampling stops. The ring stays readable.
  // The kernel takes some tens of milliseconds for each probe, and for those of many targets no
  // longer than for one, so to end many targets call this for all of them first.
  void begin_detach();
  void detach();  // begins, and waits until the kernel is done
  // After begin_detach(): true once the program has no probes. That is long before the kernel has
  // finished. The program's memory shows it, if the addresses of the former probes are given. The
  // kernel completes the rest.
  bool detached(const MemoryReader& memory, std::span<const std::uint64_t> addresses);

  // Number of runs of the uprobes, as counted by the kernel (BpfStatistics). Nothing if the kernel
  // had no memory to report it.
  std::optional<ProbeRuns> runs() const;

 private:
  UprobeLink& link(Probe probe) { return uprobes_[static_cast<std::size_t>(probe)]; }
  const UprobeLink& link(Probe probe) const { return uprobes_[static_cast<std::size_t>(probe)]; }

  const KernelObject& object_;
  int pid_;
  UprobeKind kind_;
  bool domains_;
  bool follow_forks_;
  bool observe_;
  std::array<BpfLink, 5> tracepoints_;  // exec, end of a thread, fork, signal, end
  std::array<UprobeLink, kProbes> uprobes_;
  ProbeRemoval removal_;
};

// Checks whether a program's own memory shows probes. The kernel removes a breakpoint some ten
// milliseconds after its link was closed, and needs at least as long again to release the link.
//
// True if the code at these addresses, at least one, can be read and none of it is a probe, of
// memprofd or any other tool. On x86-64 a probe is `int3`, or a call where the kernel has replaced
// a long nop (Linux 6.18); code that begins with a call of its own counts as one. On other
// processors a probe cannot be distinguished from code, and the answer is false.
bool shows_no_probe(const MemoryReader& memory, std::span<const std::uint64_t> addresses);

}  // namespace memprofd
