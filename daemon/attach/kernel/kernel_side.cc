// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/kernel_side.h"

#include <bpf/bpf.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bpf/events.h"
#include "daemon/attach/kernel/bpf_support.h"
#include "daemon/attach/kernel/kernel_object.h"
#include "daemon/attach/kernel/kernel_structures.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::uint32_t kMaxTableBits = 28;

absl::Status check_config(const KernelConfig& config, const KernelFrameTable& table) {
  if (!config.fiber_stacks &&
      config.last_return_address_offset != config.bottom_of_stack_offset + 8)
    return absl::InvalidArgumentError(absl::StrFormat(
        "the runtime keeps last_return_address at %u and bottom_of_stack at %u, not side by "
        "side; this OCaml version is not supported",
        config.last_return_address_offset, config.bottom_of_stack_offset));
  if (table.bits < 1 || table.bits > kMaxTableBits ||
      table.slots.size() != std::size_t{1} << table.bits)
    return absl::InvalidArgumentError(
        absl::StrFormat("the frame table has %u slots for %u bits; at most %u bits are supported",
                        table.slots.size(), table.bits, kMaxTableBits));
  return absl::OkStatus();
}

std::uint64_t sum_over_cpus(const bpf_map* map, std::uint32_t key) {
  std::vector<std::uint64_t> values(
      static_cast<std::size_t>(std::max(1, libbpf_num_possible_cpus())));
  if (bpf_map_lookup_elem(bpf_map__fd(map), &key, values.data()) != 0) return 0;
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

// Returns false if every slot that a walk would examine is taken.
bool add_slot(std::span<std::uint64_t> table, std::uint32_t bits, std::uint64_t value) {
  const std::uint64_t address = MEMPROF_SLOT_RETADDR(value);
  const std::uint32_t home = memprof_slot_home(address, bits);
  const std::uint32_t mask = (1u << bits) - 1;
  for (std::uint32_t i = 0; i < MEMPROF_MAX_PROBES; ++i) {
    std::atomic_ref<std::uint64_t> slot(table[(home + i) & mask]);
    const std::uint64_t old = slot.load(std::memory_order_relaxed);
    if (old != 0 && MEMPROF_SLOT_RETADDR(old) != address) continue;
    slot.store(value, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace

KernelSide::KernelSide() = default;
KernelSide::~KernelSide() = default;

absl::StatusOr<std::unique_ptr<KernelSide>> KernelSide::load(const KernelConfig& config,
                                                             const KernelFrameTable& table) {
  route_libbpf_messages();
  RETURN_IF_ERROR(check_config(config, table));
  std::unique_ptr<KernelSide> side(new KernelSide);
  side->pid_ = config.pid;
  ASSIGN_OR_RETURN(KernelObject object, KernelObject::load(config, table.bits));
  side->object_ = std::make_unique<KernelObject>(std::move(object));
  RETURN_IF_ERROR(side->map_table(table));
  const bpf_map* events = side->object_->main->maps.events;
  ASSIGN_OR_RETURN(side->ring_, EventRing::open(bpf_map__fd(events), bpf_map__max_entries(events)));
  side->probes_ = std::make_unique<Probes>(*side->object_, config);
  if (config.malloc_probes)
    side->malloc_probes_ = std::make_unique<MallocProbes>(*side->object_, config.pid);
  return side;
}

absl::Status KernelSide::map_table(const KernelFrameTable& frames) {
  const std::size_t bytes = frames.slots.size() * sizeof(std::uint64_t);
  ASSIGN_OR_RETURN(table_, MappedPages::map(bpf_map__fd(object_->main->maps.frame_table), bytes,
                                            PROT_READ | PROT_WRITE, 0, "the frame table"));
  std::copy(frames.slots.begin(), frames.slots.end(), slots().begin());
  table_charge_ = frames.charge;
  if (table_charge_ != nullptr) table_charge_->shrink_to(bytes);  // the kernel's copy remains
  return absl::OkStatus();
}

std::span<std::uint64_t> KernelSide::slots() const {
  return {static_cast<std::uint64_t*>(table_.data()), table_.bytes() / sizeof(std::uint64_t)};
}

void KernelSide::set_agent(std::uint64_t control_address) {
  std::atomic_ref(object_->main->bss->agent_control).store(control_address);
}

absl::Status KernelSide::add_frames(const KernelFrameTable& table) {
  const auto there = slots();
  return add_kernel_slots(there, static_cast<std::uint32_t>(std::countr_zero(there.size())),
                          table.slots);
}

std::vector<std::uint64_t> KernelSide::thread_pointers() const {
  if (object_->tasks == nullptr) return {};
  const bpf_program* program = object_->tasks->progs.thread_pointers;
  if (!bpf_program__autoload(program)) return {};
  return read_thread_pointers(program, pid_);
}

ProgramEnd KernelSide::program_end() const {
  if (object_->tasks == nullptr) return {};
  const std::uint64_t end = std::atomic_ref(object_->tasks->bss->program_end).load();
  if ((end & MEMPROF_END_KNOWN) == 0) return {};
  return ProgramEnd::of_status(static_cast<int>(end & MEMPROF_END_STATUS),
                               (end & MEMPROF_END_OUT_OF_MEMORY) != 0);
}

KernelCounters KernelSide::counters() const {
  const auto& maps = object_->main->maps;
  KernelCounters counters;
  for (std::uint32_t i = 0; i < MEMPROF_KERNEL_DROPS; ++i)
    counters.drops[i] = sum_over_cpus(maps.drops, i);
  for (std::uint32_t i = 0; i < MEMPROF_KERNEL_COUNTS; ++i)
    counters.counts[i] = sum_over_cpus(maps.counts, i);
  return counters;
}

std::uint64_t KernelSide::captures_lost() const {
  const bpf_map* drops = object_->main->maps.drops;
  return sum_over_cpus(drops, MEMPROF_DROP_CAPTURE_RING_FULL) +
         sum_over_cpus(drops, MEMPROF_DROP_CAPTURE_SCRATCH_BUSY) +
         sum_over_cpus(drops, MEMPROF_DROP_CAPTURE_NO_STATE);
}

std::vector<LostBatch> KernelSide::lost_batches() const {
  std::vector<LostBatch> lost;
  auto& words = *object_->main->bss;
  for (std::uint32_t buffer = 0; buffer < MEMPROF_BUFFERS; ++buffer) {
    const std::uint64_t records = std::atomic_ref(words.lost_records[buffer]).load();
    if (records == 0) continue;
    lost.push_back({buffer, records, std::atomic_ref(words.lost_samples[buffer]).load()});
  }
  return lost;
}

// ----------------------------------------------------------------- frame table

absl::Status add_kernel_slots(std::span<std::uint64_t> table, std::uint32_t bits,
                              std::span<const std::uint64_t> additions) {
  std::uint64_t refused = 0;
  for (const std::uint64_t value : additions)
    if (value != 0 && !add_slot(table, bits, value)) ++refused;
  if (refused == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("no room for ", refused, " new frame descriptors in the kernel's table of ",
                   table.size(), " slots; detach and attach again"));
}

}  // namespace memprofd
