// The BPF programs of one target: loaded, attached, read, undone.
//
// Order of use:
//
//   load -> attach_capture -> attach_lifecycle -> attach_batch -> consume ...
//                                                      |             |
//                      raises the agent's semaphore ---+             |
//   detach_probes (lowers it) <--------------------------------------+
//
// Captures must be there before the semaphore makes the agent sample. Destruction
// detaches all as well. Were the daemon killed, the kernel does the same by itself.
//
// Threads: consume and ring_epoll_fd belong to the ingest thread; counters may
// be called from any thread; everything else belongs to the control thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bpf/events.h"
#include "daemon/attach/kernel_config.h"
#include "daemon/attach/uprobe_link.h"
#include "daemon/discover/frame_table.h"

namespace memprofd {

struct KernelCounters {
  std::array<std::uint64_t, MEMPROF_KERNEL_DROPS> drops{};    // enum memprof_kernel_drop
  std::array<std::uint64_t, MEMPROF_KERNEL_COUNTS> counts{};  // enum memprof_kernel_count
  std::uint64_t ring_used_bytes = 0;
  std::uint64_t ring_total_bytes = 0;
};

struct ProbeRuns {
  std::uint64_t hits = 0;
  std::uint64_t program_ns = 0;
};

class KernelSide {
 public:
  // kPermissionDenied, kUnimplemented (the kernel lacks something, named),
  // kNotFound (no such process), kInvalidArgument, kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<KernelSide>> load(const KernelConfig& config,
                                                          const KernelFrameTable& table);
  ~KernelSide();

  // Each takes the place of the one before. Which of them there are programs for, the config
  // says. Capture does nothing when it is attached.
  absl::Status attach_capture(const ProbeSite& site);
  void detach_capture();
  // Instead of capture and batch: at caml_alloc_small_dispatch.
  absl::Status attach_observe(const ProbeSite& site);
  absl::Status attach_batch(const ProbeSite& site);  // with its semaphore
  absl::Status attach_lifecycle();
  absl::Status attach_frametable(const ProbeSite& site);
  // All of them: the agent's semaphore falls and sampling stops. What is in the ring stays
  // readable. The kernel takes some tens of milliseconds for each probe, for those of many
  // targets no longer than for one: who ends many begins with all.
  void begin_detach();
  void detach_probes();  // begins, and waits until all are out

  // Adds frames of code loaded later. kResourceExhausted when the table is full.
  absl::Status add_frames(const KernelFrameTable& table);

  // The target's threads' thread pointers; none for OCaml 4 and on kernels that do not say.
  std::vector<std::uint64_t> thread_pointers() const;

  // Calls fn for records available now, in order, at most kConsumeRecords; the
  // span is valid during the call. Returns the number of records.
  static constexpr int kConsumeRecords = 65536;
  int consume(const std::function<void(std::span<const std::byte>)>& fn);
  // Readable when the ring is a quarter full; before that, poll every few ms.
  int ring_epoll_fd() const;

  KernelCounters counters() const;
  // Of the probes in the target, as far as the kernel has counted (BpfStatistics).
  ProbeRuns probe_runs() const;

 private:
  struct Parts;
  enum class Probe : std::size_t;
  absl::Status attach(Probe probe, const ProbeSite& site);
  explicit KernelSide(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace memprofd
