// The BPF programs of one target: loaded, attached, read, undone.
//
// Order of use:
//
//   load -> attach_capture -> attach_lifecycle -> attach_batch -> consume ...
//                                                      |             |
//                      raises the agent's semaphore ---+             |
//   detach_probes (lowers it first) <--------------------------------+
//
// Captures must be there before the semaphore makes the agent sample, and until
// it has stopped. Destruction detaches all in that order as well. Were the
// daemon killed, the kernel does the same by itself.
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
#include "daemon/discover/frame_table.h"
#include "daemon/discover/target.h"

namespace memprofd {

// Fixed at load.
struct KernelConfig {
  int pid = 0;                     // as this process sees it
  bool follow_forks = false;       // tell of the children too
  bool fiber_stacks = false;       // OCaml 5: the next three are not used
  std::uint64_t domain_state = 0;  // value of the Caml_state pointer
  // Bytes into the domain state; the second must be the first plus 8, because
  // the walk reads both at once.
  std::uint32_t bottom_of_stack_offset = 0;
  std::uint32_t last_return_address_offset = 0;
  // For attach_observe only.
  std::uint32_t current_stack_offset = 0;  // OCaml 5
  std::uint32_t stat_words_offset = 0;     // minor, promoted, major
  std::uint32_t young_ptr_offset = 0;
  std::uint32_t young_end_offset = 0;
  std::uint32_t domain_id_offset = 0;   // OCaml 5
  AddressRange user_callstack;          // empty: Printexc.get_callstack is not told apart
  AddressRange track_interned;          // empty: unmarshalling is not told apart
  std::uint32_t max_frames = 1024;      // clamped to 1..MEMPROF_MAX_FRAMES
  std::uint32_t ring_bytes = 8u << 20;  // rounded up to a power of two, 256 KiB..1 GiB
};

// A target's ring buffer is most of the memory that it takes here. The small one holds half a
// second of what the busiest programs send at the highest rate that gets it.
constexpr std::uint32_t ring_bytes_for(double sampling_rate) {
  return sampling_rate > 1e-4 ? 4u << 20 : 1u << 20;
}

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

  // Offsets are in the file; paths open the file from here (/proc/PID/exe).
  // Does nothing when it is attached.
  absl::Status attach_capture(const std::string& exe_path, std::uint64_t file_offset);
  void detach_capture();
  // Instead of capture and batch: at caml_alloc_small_dispatch.
  absl::Status attach_observe(const std::string& exe_path, std::uint64_t file_offset);
  absl::Status attach_batch(const std::string& agent_path, std::uint64_t probe_offset,
                            std::uint64_t semaphore_offset);
  absl::Status attach_lifecycle();
  absl::Status attach_frametable(const std::string& exe_path, std::uint64_t file_offset);
  // Batch first: the agent's semaphore falls and sampling stops; then the rest.
  // What is in the ring stays readable.
  void detach_probes();

  // Adds frames of code loaded later. kResourceExhausted when the table is full.
  absl::Status add_frames(const KernelFrameTable& table);

  // The safe point. Armed, the next thread of the target that passes it gets the
  // signal, once. Arming is two memory writes, attaching a system call.
  absl::Status attach_safe_point(const std::string& exe_path, std::uint64_t file_offset);
  void arm_safe_point(int signal);
  void disarm_safe_point();
  bool safe_point_fired() const;  // since the last arm_safe_point
  void detach_safe_point();

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
  explicit KernelSide(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace memprofd
