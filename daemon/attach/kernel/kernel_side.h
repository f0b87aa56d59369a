// SPDX-License-Identifier: Apache-2.0
// The BPF programs of one target: loaded, attached, read, undone.
//
// Order of use:
//
//   load -> kCapture -> lifecycle -> kBatch -> EventRing::consume ...
//                                      |             |
//      raises the agent's semaphore ---+             |
//   Probes::detach (lowers it) <---------------------+
//
// Captures must be in place before the semaphore makes the agent sample. Destruction also detaches
// everything. If the daemon is killed, the kernel does the same.
//
// Owned by the control thread; program_end(), counters() and probes().runs() may be called from any
// thread. The ring is a separate object that belongs to the caller of take_ring().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bpf/events.h"
#include "daemon/attach/kernel/event_ring.h"
#include "daemon/attach/kernel/kernel_config.h"
#include "daemon/attach/kernel/malloc_probes.h"
#include "daemon/attach/kernel/mapped_pages.h"
#include "daemon/attach/kernel/probes.h"
#include "daemon/discover/frame_table.h"
#include "daemon/model/program_end.h"

namespace memprofd {

struct KernelCounters {
  std::array<std::uint64_t, MEMPROF_KERNEL_DROPS> drops{};    // enum memprof_kernel_drop
  std::array<std::uint64_t, MEMPROF_KERNEL_COUNTS> counts{};  // enum memprof_kernel_count
};

// The position of an agent's buffer at the last batch that could not be sent.
struct LostBatch {
  std::uint32_t buffer = 0;
  std::uint64_t records = 0;  // up to its end
  std::uint64_t sampled = 0;  // blocks, likewise
};

struct KernelObject;

class KernelSide {
 public:
  // kPermissionDenied, kUnimplemented (the kernel lacks something, named),
  // kNotFound (no such process), kInvalidArgument, kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<KernelSide>> load(const KernelConfig& config,
                                                          const KernelFrameTable& table);
  ~KernelSide();
  KernelSide(const KernelSide&) = delete;
  KernelSide& operator=(const KernelSide&) = delete;

  Probes& probes() { return *probes_; }
  const Probes& probes() const { return *probes_; }
  // Null unless the config has them.
  MallocProbes* malloc_probes() { return malloc_probes_.get(); }
  // The target's events, for their reader; null on the second call.
  std::unique_ptr<EventRing> take_ring() { return std::move(ring_); }

  // Sets the address of the agent's control block: if the program is killed, its unflushed records
  // still arrive through the ring, as a batch.
  void set_agent(std::uint64_t control_address);

  // Adds frames of code that was loaded later. kResourceExhausted if the table is full.
  absl::Status add_frames(const KernelFrameTable& table);

  // Thread pointers of the target's threads; none for OCaml 4 and on kernels that do not report
  // them.
  std::vector<std::uint64_t> thread_pointers() const;

  // How the program ended; kUnknown while it runs, and on kernels that do not report it.
  ProgramEnd program_end() const;

  // Makes one system call per counter.
  KernelCounters counters() const;
  // Number of callstacks that did not arrive, whatever the reason.
  std::uint64_t captures_lost() const;
  // Returns one entry for each buffer with a batch that could not be sent since the agent was
  // loaded.
  std::vector<LostBatch> lost_batches() const;

 private:
  KernelSide();
  absl::Status map_table(const KernelFrameTable& frames);
  std::span<std::uint64_t> slots() const;

  // Destroyed in reverse order: probes first.
  int pid_ = 0;
  std::unique_ptr<KernelObject> object_;
  MappedPages table_;
  std::shared_ptr<ByteCharge> table_charge_;
  std::unique_ptr<EventRing> ring_;
  std::unique_ptr<Probes> probes_;
  std::unique_ptr<MallocProbes> malloc_probes_;
};

// Writes frame descriptors into the table while BPF programs use it for walks. The table only
// grows: an empty slot is filled, or the frame size of an address is replaced. Each change is one
// aligned 8-byte store, so that a concurrent walk sees the old or the new slot and stays correct.
//
// Adds every slot of `additions` (a table of any size, including empty slots) to `table` with 1 <<
// bits slots. kResourceExhausted if one of them would need more than MEMPROF_MAX_PROBES probes; the
// others have been added then.
absl::Status add_kernel_slots(std::span<std::uint64_t> table, std::uint32_t bits,
                              std::span<const std::uint64_t> additions);

}  // namespace memprofd
